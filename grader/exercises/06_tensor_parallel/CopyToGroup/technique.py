"""How CopyToGroup must be done, and how it can fail."""

from grader.calling.splitting import BACKWARD, FORWARD
from grader.exercises.technique.conjugates import one_all_reduce

TECHNIQUE = one_all_reduce(BACKWARD, FORWARD)
