# leakscope on a CPU, built from this repository:
#   docker build --tag leakscope .
#   docker run --rm --volume "$PWD:/audit" leakscope audit my.toml
FROM python:3.12-slim

# LightGBM needs OpenMP, which the slim image lacks.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends libgomp1 \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
# torch first, from the index of builds without CUDA; then leakscope finds it installed.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
RUN pip install --no-cache-dir --index-url "$TORCH_INDEX" torch
RUN pip install --no-cache-dir '.[train]'

# A run folder belongs to whoever starts the container: docker run --user "$(id -u):$(id -g)".
RUN useradd --create-home auditor && mkdir /audit && chown auditor /audit
USER auditor
ENV MPLCONFIGDIR=/tmp/matplotlib
WORKDIR /audit
ENTRYPOINT ["leakscope"]
CMD ["--help"]
