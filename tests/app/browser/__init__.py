"""The dashboard in a browser: what people see, type and press."""
