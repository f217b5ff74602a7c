"""python -m tests.answers"""

from tests.answers import main

main()
