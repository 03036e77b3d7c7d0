"""Regular expressions as Go has them (Volcano's `regexMatch`), matched in linear time whatever the expression.

Python's own `re` goes back and forth and may take years for an unlucky pattern and a name of thirty letters, and it
knows things that Go refuses (references back, looking ahead). `syntax` reads an expression, `matching` follows all its
ways at once.
"""

from muster.engine.pattern.matching import Pattern
from muster.engine.pattern.syntax import PatternError

__all__ = ["Pattern", "PatternError"]
