# make figures: every table, figure and verdict.  make test: everything that is checked.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: figures test setup clean

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info; v >= (3, 11) or sys.exit(f"Python {v[0]}.{v[1]} is too old: lpkit needs 3.11 or newer; name one with make PYTHON=python3.12")'
	@echo "setting up $(VENV) (a minute or two; 750 MB)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --config-settings editable_mode=compat -e '.[notebooks,test]'
	@$(BIN)/python -c 'import matplotlib.font_manager' 2>/dev/null
	@touch $@

figures: setup
	@$(BIN)/lpkit figures -j 2

test: setup
	$(BIN)/python -m pytest
	$(BIN)/python -m pytest -p no:doctest -o addopts= -o filterwarnings= --nbval --nbval-current-env --nbval-cell-timeout 300 --nbval-kernel-startup-timeout 120 notebooks
	$(BIN)/lpkit check -j 2

clean:
	rm -rf $(VENV) .lpkit
