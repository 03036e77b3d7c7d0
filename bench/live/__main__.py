"""`python bench/live`: see measure.py."""

from measure import main

main()
