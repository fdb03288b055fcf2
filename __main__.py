"""`python -m coalmine` is the same as `coalmine`."""

from .audit.cli import main

main()
