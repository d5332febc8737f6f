"""Figures as plain dicts of plotly's schema: pure functions of finished numbers, without plotly itself."""
