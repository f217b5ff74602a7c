# The course with its environment, for a reader or for marking; the repository holds the solutions, so no image for students.
#   docker build -t many-ranks . && docker run --rm -p 8888:8888 many-ranks
# On Linux PyPI's torch brings gigabytes of CUDA libraries. The CPU build is enough: --build-arg PIP_EXTRA_INDEX_URL=ADDRESS,
# with the address of PyTorch's CPU index. To mark, bubblewrap must be allowed to make namespaces: docs/where-to-run.md.
ARG BASE=debian:bookworm-slim

FROM $BASE AS system
RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
       bubblewrap ca-certificates make python3 python3-venv util-linux \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --shell /bin/bash reader \
    && install --directory --owner reader --group reader /course

FROM system AS devcontainer
RUN apt-get update && apt-get install -y --no-install-recommends git && rm -rf /var/lib/apt/lists/*
USER reader

FROM system AS installed
ARG PIP_EXTRA_INDEX_URL=
WORKDIR /course
COPY . .
RUN PIP_NO_CACHE_DIR=1 make install

FROM system
WORKDIR /course
COPY --from=installed --chown=reader:reader /course .
USER reader
EXPOSE 8888
CMD ["make", "lab", "ARGS=--ip=0.0.0.0 --no-browser"]
