# The trainer's half: its environment (6.8 GB, cached once per machine), its tests and the demo.
TRAINER_ENV := $(BIN)/python tools/trainer_env.py
# auto: gpu where there is an NVIDIA driver. What runs on the CPU (tests, demo) needs cpu wherever it is.
TRAINER_FLAVOUR ?= auto

.PHONY: install-trainer
install-trainer: install ## Add the trainer's stack (torch, vLLM, verl, Ray) to .venv from a cache shared by all checkouts
	@$(TRAINER_ENV) --flavour $(TRAINER_FLAVOUR)

.PHONY: install-trainer-cpu
install-trainer-cpu: install
	@$(TRAINER_ENV) --flavour cpu

.PHONY: test-trainer
test-trainer: install-trainer-cpu ## Real training runs on this machine's cores (minutes)
	@$(BIN)/pytest tests/trainer -m 'not slow' --durations=25

.PHONY: test-trainer-slow
test-trainer-slow: install-trainer-cpu ## The long forms of the trainer's tests
	@$(BIN)/pytest tests/trainer -m slow

.PHONY: demo
demo: ## From a fresh clone to a trained tiny model on this machine's CPU: split placement, live, in minutes
	@$(PYTHON) tools/demo.py

FLAVOUR ?= cpu
IMAGE ?= split-ppo/trainer:$(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' split_ppo/__init__.py)$(if $(filter cpu,$(FLAVOUR)),-cpu)
BUILDER ?= $(if $(shell command -v buildah),buildah bud,docker build)
.PHONY: image-trainer
image-trainer: ## Build the trainer's image: FLAVOUR=cpu|gpu, BUILD_ARGS='--build-arg BASE=…'
	@$(BUILDER) -f trainer_image/Dockerfile --build-arg FLAVOUR=$(FLAVOUR) $(BUILD_ARGS) -t $(IMAGE) .

.PHONY: image-trainer-cpu
image-trainer-cpu: ## The CPU flavour of it: what pods with `device: CPU` run
	@$(MAKE) --no-print-directory image-trainer FLAVOUR=cpu

ARCHIVE ?= dist/trainer-cpu.tar
.PHONY: test-image-trainer-cpu
test-image-trainer-cpu: install image-trainer-cpu ## Build the CPU image and train the quickstart in it, in pods of a real node (20 GB of disk)
	@mkdir -p $(dir $(ARCHIVE)) && rm -f $(ARCHIVE)
	@buildah push --disable-compression $(IMAGE) oci-archive:$(ARCHIVE):localhost/$(IMAGE)
	@SPLIT_PPO_TRAINER_IMAGE=localhost/$(IMAGE) SPLIT_PPO_TRAINER_ARCHIVE=$(ARCHIVE) $(BIN)/pytest -s tests/cluster/test_trainer_image.py
	@rm -f $(ARCHIVE)
