# The operator's image, with the command line tool in it. Built from the repository's root:
#   docker build -t split-ppo/operator:0.1.0 .
# or `make image-operator`, with buildah or docker. BASE may be any Debian-like image with Python 3.11; an image by digest is
# what you want in production: --build-arg BASE=…@sha256:….
ARG BASE=python:3.11-slim-bookworm

# An image of the stage `packages` made earlier can be given in its place.
ARG PACKAGES=packages

# What the project is built with, and what it needs: changes with the list alone.
FROM ${BASE} AS packages
RUN python3 -c 'import ensurepip' || { apt-get update && apt-get install -y --no-install-recommends python3-venv; }
# The system's certificates, so that a build behind a proxy of its own needs no change here.
ENV PIP_CERT=/etc/ssl/certs/ca-certificates.crt PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python3 -m venv /opt/pip && /opt/pip/bin/pip install --quiet hatchling
WORKDIR /build
COPY operator/requirements.txt .
RUN /opt/pip/bin/pip install --quiet --no-deps --only-binary :all: --target /opt/packages -r requirements.txt \
    && rm -rf /opt/packages/bin

# This project, small and last: a change of its code is a layer of a megabyte.
FROM ${PACKAGES} AS project
COPY pyproject.toml README.md LICENSE CHANGELOG.md ./
COPY split_ppo/ split_ppo/
COPY operator/ operator/
COPY trainer_image/split_ppo_trainer/ trainer_image/split_ppo_trainer/
COPY tools/sbom.py .
RUN /opt/pip/bin/pip install --quiet --no-deps --no-build-isolation --target /opt/project . \
    && python3 sbom.py --name split-ppo-operator /opt/project /opt/packages > /opt/project/sbom.cdx.json \
    && rm -rf /opt/project/bin /opt/project/split_ppo_trainer

FROM ${BASE}
COPY --from=project /opt/packages /opt/packages
COPY --from=project /opt/project /opt/project
# A home and a name, because the libraries ask for both and the user's number, which a cluster may choose, has neither.
ENV PYTHONPATH=/opt/project:/opt/packages PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 HOME=/ USER=split-ppo
# Fails here, and not in a cluster, when a package is missing.
RUN python3 -m split_ppo_operator --help > /dev/null && python3 -m split_ppo --version
USER 65532:65532
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="split-ppo operator" \
      org.opencontainers.image.description="Runs SplitPPOJobs on KubeRay" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      io.splitppo.sbom="/opt/project/sbom.cdx.json"
ENTRYPOINT ["python3", "-m", "split_ppo_operator"]
