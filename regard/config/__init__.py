"""Settings: frozen dataclasses, overridden by words from the command line."""

from regard.config.overrides import Field, fields, from_json, override, to_json

__all__ = ["Field", "fields", "from_json", "override", "to_json"]
