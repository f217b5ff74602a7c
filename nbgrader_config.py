"""For nbgrader commands run from this folder: the course's configuration is in grader/."""

load_subconfig("grader/nbgrader_config.py")
