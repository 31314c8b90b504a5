# The trainer's half: its environment (6.8 GB, cached once per machine), its tests and the demo.
TRAINER_ENV := $(BIN)/python tools/trainer_env.py

.PHONY: install-trainer
install-trainer: install ## Add the trainer's stack (torch, vLLM, verl, Ray) to .venv from a cache shared by all checkouts
	@$(TRAINER_ENV)

.PHONY: test-trainer
test-trainer: install-trainer ## Real training runs on this machine's cores (minutes)
	@$(BIN)/pytest tests/trainer -m 'not slow'

.PHONY: test-trainer-slow
test-trainer-slow: install-trainer ## The long forms of the trainer's tests
	@$(BIN)/pytest tests/trainer -m slow

.PHONY: demo
demo: ## From a fresh clone to a trained tiny model on this machine's CPU: split placement, live, in minutes
	@$(PYTHON) tools/demo.py
