# make figures: every table, figure and verdict.  make test: everything that is checked.
# make docs: the site, in docs/_build/html, in an environment of its own.
# make test-torch: what runs on torch, in an environment of its own; TORCH names the build, such as TORCH=torch==2.13.0+cpu.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
TORCH ?= torch==2.13.0
TORCH_VENV ?= .venv-torch
TORCH_BIN := $(TORCH_VENV)/bin
TORCH_READY := $(TORCH_VENV)/.ready
DOCS_VENV ?= .venv-docs
DOCS_BIN := $(DOCS_VENV)/bin
DOCS_READY := $(DOCS_VENV)/.ready
NBVAL := -p no:doctest -o addopts= -o filterwarnings= --nbval --nbval-current-env --nbval-cell-timeout 300 --nbval-kernel-startup-timeout 120

.PHONY: figures test test-torch docs setup clean

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info; v >= (3, 11) or sys.exit(f"Python {v[0]}.{v[1]} is too old: lpkit needs 3.11 or newer; name one with make PYTHON=python3.12")'
	@echo "setting up $(VENV) (some minutes; 800 MB)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --config-settings editable_mode=compat -e '.[notebooks,test]'
	@$(BIN)/python -c 'import matplotlib.font_manager' 2>/dev/null
	@touch $@

figures: setup
	@$(BIN)/lpkit figures -j 2

test: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile $(NBVAL) notebooks
	$(BIN)/lpkit check -j 2

$(TORCH_READY): pyproject.toml constraints.txt
	@echo "setting up $(TORCH_VENV) with $(TORCH)"
	@$(PYTHON) -m venv $(TORCH_VENV)
	@$(TORCH_BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --config-settings editable_mode=compat '$(TORCH)' papermill -e '.[test]'
	@$(TORCH_BIN)/python -c 'import matplotlib.font_manager' 2>/dev/null
	@touch $@

# The tests that skip without torch, and the notebooks that need it.
TORCH_TESTS := $(shell grep -l 'importorskip."torch"' tests/*.py) $(wildcard lpkit/interop/torch*.py)
TORCH_NOTEBOOKS := $(shell grep -l '"requires-torch"' notebooks/*.ipynb)

test-torch: $(TORCH_READY)
	OMP_NUM_THREADS=1 $(TORCH_BIN)/python -m pytest $(TORCH_TESTS)
	$(TORCH_BIN)/python -m pytest $(NBVAL) $(TORCH_NOTEBOOKS)
	$(TORCH_BIN)/python -c 'import sys; from lpkit.run import check; sys.exit(check(sys.argv[1:]).exit_code)' $(notdir $(basename $(TORCH_NOTEBOOKS)))

$(DOCS_READY): pyproject.toml constraints.txt
	@echo "setting up $(DOCS_VENV) (a minute or two; 650 MB)"
	@$(PYTHON) -m venv $(DOCS_VENV)
	@$(DOCS_BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --config-settings editable_mode=compat -e '.[docs]'
	@touch $@

# Nothing is executed: notebooks are shown as committed. A warning is an error.
docs: $(DOCS_READY)
	@$(DOCS_BIN)/python -m sphinx -W --keep-going -q -c docs . docs/_build/html
	@echo "docs/_build/html/index.html"

clean:
	rm -rf $(VENV) $(TORCH_VENV) $(DOCS_VENV) docs/_build .lpkit
