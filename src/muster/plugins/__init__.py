"""What decides, one file or folder per plugin, named as in the configuration. Plugins do not import each other."""
