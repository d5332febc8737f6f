"""One module a page: ``PATH``, ``NAME``, ``TITLE``, ``layout(state, results)``, ``register(app, results)``."""
