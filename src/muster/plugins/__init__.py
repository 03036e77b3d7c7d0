"""The built-in plugins, one module or package each, named as in the configuration. They do not import each other."""
