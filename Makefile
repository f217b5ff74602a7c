# Every target first makes .venv from environment.yml, once. ARGS goes to the program that a target runs.
PYTHON ?= python3
PY := .venv/bin/python
# With .venv on the PATH: nbgrader calls alembic by its name.
RUN = env PATH="$(CURDIR)/.venv/bin:$$PATH" $(PY)
STAMP := .venv/.installed

# Besides the course: what marks submissions, and what tests and builds the project.
EVERYTHING := .venv/.everything

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help lab install test test-all pythons grade notebooks bundle site bench gpu answers mutants changes fuzz pictures cluster clean

help: ## list what make can do
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1	\2/p' Makefile | awk -F '\t' '{ printf "make %-10s %s\n", $$1, $$2 }'

lab: $(STAMP) ## open the course in JupyterLab; options: PORT=8899 TOKEN=secret ARGS=--no-browser
	@mkdir -p $(WORKSPACES) && cp -n tools/labconfig/first_look.json $(WORKSPACES)/default-37a8.jupyterlab-workspace || true
	@exec env $(LAB_ENV) $(RUN) -m jupyterlab $(LAB_OPTIONS) $(ARGS)

install: $(EVERYTHING) ## install what marks submissions, and what tests the course

test: $(EVERYTHING) ## run the tests, without the long ones
	$(PYTEST) -m "not long" $(ARGS)

test-all: $(EVERYTHING) cluster ## run every test, the linter and the type checker, as CI does
	$(PY) -m ruff check . && .venv/bin/ty check --python .venv; lint=$$?; $(subst -m pytest,-m tests.run_all,$(PYTEST)) -m "not short" $(ARGS) && exit $$lint

pythons: $(EVERYTHING) ## a short suite on the other Pythons that are here, with the oldest and the newest torch; options: ARGS=3.13
	$(PY) tools/pythons.py $(ARGS)

grade: $(EVERYTHING) ## autograde the sample submissions
	$(RUN) -m tests.grade_samples $(ARGS)

notebooks: $(EVERYTHING) ## generate notebooks/ from solutions/
	$(RUN) -m grader.course.release $(ARGS)

bundle: $(EVERYTHING) ## write the students' archive: notebooks, utils and public checks, no solutions
	$(RUN) -m grader.bundle.archive $(ARGS)

site: $(EVERYTHING) ## write the course as pages to read: build/site; options: ARGS="--not-solved 01_collectives"
	$(RUN) -m grader.site.build $(ARGS)

bench: $(EVERYTHING) ## measure speeds, in ratios; options: ARGS="simulator gpu", ARGS=report writes docs/bench.md
	$(RUN) -m tests.bench $(ARGS)

gpu: $(EVERYTHING) ## all that a machine with GPUs should show: tests, losses over NCCL, times beside the simulator
	$(RUN) -m tests.gpu

answers: $(EVERYTHING) ## wrong and unusual answers of students through the public checks; options: ARGS="--hints reduce"
	$(RUN) -m tests.answers $(ARGS)

mutants: $(EVERYTHING) ## wrong answers made by rules from every reference; options: ARGS="01_collectives reduce"
	$(RUN) -m tests.machine_mutants $(ARGS)

changes: $(EVERYTHING) ## right notebooks, changed as honest people and programs change them, marked; options: ARGS=00_start_here
	$(RUN) -m tests.changes $(ARGS)

fuzz: $(EVERYTHING) ## random programs: do run_ranks and simulate_ranks agree on who stands still? options: ARGS="6000 --real 60"
	$(RUN) -m tests.fuzz $(ARGS)

pictures: $(EVERYTHING) ## draw the README's pictures anew
	$(RUN) -m tests.pictures $(ARGS)

cluster: $(EVERYTHING) ## install what `grader autograde --scheduler` needs besides: Dask
	$(PY) -m pip install --disable-pip-version-check --quiet $$($(PY) tools/requirements.py cluster)

clean: ## remove .venv, build/ and caches; your notebooks and grades stay
	rm -rf .venv build *.egg-info .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Tests that share a browser or measure time carry one xdist_group, and so run one after another.
# The many programs that tests start find our modules compiled, even where Python is told not to keep them.
PYTEST = env -u PYTHONDONTWRITEBYTECODE $(RUN) -m pytest -q -rfEs -n 3 --dist loadgroup --durations=20

# JUPYTER_CONFIG_PATH: nbgrader_config.py, for the formgrader, and labconfig/, which keeps the news question away and wraps long lines of code. A token in the environment stays out of `ps`.
# WORKSPACES: which panels are open; at first the table of contents. The file's name is the one that JupyterLab looks for.
WORKSPACES = .venv/workspaces
LAB_ENV = JUPYTERLAB_WORKSPACES_DIR="$(CURDIR)/$(WORKSPACES)" JUPYTER_CONFIG_PATH="$(CURDIR)/grader:$(CURDIR)/tools$${JUPYTER_CONFIG_PATH:+:$$JUPYTER_CONFIG_PATH}" \
	$(if $(TOKEN),JUPYTER_TOKEN="$$TOKEN")
LAB_OPTIONS = --LabApp.default_url=/lab/tree/notebooks/00_start_here/00_start_here.ipynb \
	$(if $(PORT),--ServerApp.port="$$PORT" --ServerApp.port_retries=0) $(NO_BROWSER) $(ALLOW_ROOT)

# Over ssh or without a display JupyterLab prints its address instead of opening a browser.
NO_BROWSER = $(shell if [ -n "$$SSH_CONNECTION" ] || [ "$$(uname -s)$$DISPLAY$$WAYLAND_DISPLAY" = Linux ]; \
	then echo --no-browser; fi)
ALLOW_ROOT = $(shell if [ "$$(id -u)" = 0 ]; then echo --allow-root; fi)

# Compiled at once is what the course imports, and the rest if it is ever needed: that takes half the time and 150 MB less.
# torch/test is 84 MB of programs that test torch itself.
IMPORTED = torch.distributed.fsdp, torch.distributed.pipelining, matplotlib.pyplot, ipywidgets, jupyterlab.labapp

INSTALL = $(PY) -m pip install --no-compile --disable-pip-version-check

# The stamp is written last, so a failed install is tried again. It holds the folder's path: a folder that was moved
# is installed again, because `pip install -e .` remembers where it was.
ifneq "$(shell cat $(STAMP) 2>/dev/null)" "$(CURDIR)"
.PHONY: $(STAMP)
endif
$(STAMP): environment.yml pyproject.toml tools/requirements.py tools/locked/course.txt
	@command -v "$(PYTHON)" >/dev/null || { \
	  echo "No $(PYTHON) here. Install Python 3.11 or newer, or name one: make lab PYTHON=python3.12" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "This course needs Python 3.11 or newer, and $(PYTHON) is $$("$(PYTHON)" --version 2>&1)." \
	  "Name another: make lab PYTHON=python3.12" >&2; exit 1; }
	@"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "$(PYTHON) cannot make a virtual environment: venv or ensurepip is missing." \
	  "On Debian or Ubuntu: apt install python3-venv" >&2; exit 1; }
	@rm -f $@
	"$(PYTHON)" -m venv .venv
	$(INSTALL) --no-deps --require-hashes -r tools/locked/course.txt
	$(PY) tools/requirements.py > .venv/requirements.txt
	$(INSTALL) -r .venv/requirements.txt
	@rm -rf .venv/lib/python3*/site-packages/torch/test
	@env -u PYTHONDONTWRITEBYTECODE $(PY) -c "import $(IMPORTED)"
	@printf '%s\n' "$(CURDIR)" > $@

$(EVERYTHING): $(STAMP) $(wildcard tools/locked/marking.txt)
	$(INSTALL) --no-deps --require-hashes -r tools/locked/marking.txt
	$(PY) tools/requirements.py everything | grep -v '^-e ' > .venv/requirements.txt
	$(INSTALL) -r .venv/requirements.txt
	@touch $@
