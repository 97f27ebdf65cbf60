# The service in two images, from packages locked by uv.lock: no development tools, no compiler, no root.
#
#   docker build --tag retrieval .                    every role but the admin app, and `retrieval demo`
#   docker build --tag retrieval-app --target app .   the admin app, which knows the API's address and nothing else
#
# What runs writes to /var/lib/retrieval (RETRIEVAL_HOME) and /tmp, so that the root file system may be read-only.
# BASE is any image with Python 3.11 or newer on glibc; deploy/build-base.sh makes one where no registry is reachable.
ARG BASE=docker.io/library/python:3.11-slim-bookworm

FROM ${BASE} AS packages
ENV PIP_ROOT_USER_ACTION=ignore PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_BREAK_SYSTEM_PACKAGES=1 \
    UV_LINK_MODE=copy UV_PYTHON_DOWNLOADS=never UV_CACHE_DIR=/var/cache/uv UV_SYSTEM_CERTS=1
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends binutils >/dev/null && \
    if ! python3 -m pip --version >/dev/null 2>&1; then apt-get install -y -qq --no-install-recommends python3-pip >/dev/null; fi
COPY local/uv.txt /build/uv.txt
RUN python3 -m pip install --quiet --target /build/uv --require-hashes --only-binary :all: --requirement /build/uv.txt
WORKDIR /opt/retrieval
COPY pyproject.toml uv.lock README.md LICENSE ./

FROM packages AS service-packages
# The admin app's packages have an image of their own. OPENVINO=yes adds the runtime that doubles the speed of the local
# embedding model on processors with bfloat16 (110 MB); without it ONNX Runtime computes everywhere.
ARG OPENVINO=no
RUN --mount=type=cache,target=/var/cache/uv \
    set -- streamlit pandas pyarrow altair pydeck narwhals watchdog; \
    if [ "$OPENVINO" != yes ]; then set -- "$@" openvino; fi; \
    for name in "$@"; do options="${options:-} --no-install-package $name"; done; \
    /build/uv/bin/uv sync --frozen --no-dev --no-install-project --quiet --python "$(command -v python3)" $options
COPY deploy/prune.py /build/
RUN python3 /build/prune.py .venv
COPY api api
COPY clients clients
COPY connectors connectors
COPY flows flows
COPY local local
COPY migrations migrations
COPY retrieval retrieval
COPY retrieval_service retrieval_service
COPY prefect.yaml ./
COPY deploy/prefect/automations.yaml deploy/prefect/
COPY deploy/wheel.py deploy/
RUN --mount=type=cache,target=/var/cache/uv \
    /build/uv/bin/uv pip install --quiet --python .venv/bin/python --no-deps --editable .
COPY deploy/compile.py /build/
RUN DO_NOT_TRACK=1 PREFECT_HOME=/tmp/prefect .venv/bin/python /build/compile.py service

FROM packages AS app-packages
RUN --mount=type=cache,target=/var/cache/uv \
    /build/uv/bin/uv export --frozen --no-dev --no-emit-project --quiet >/build/locked.txt && \
    /build/uv/bin/uv venv --quiet --python "$(command -v python3)" .venv && \
    /build/uv/bin/uv pip install --quiet --python .venv/bin/python --constraint /build/locked.txt \
        'streamlit[auth]' altair httpx
COPY deploy/prune.py deploy/compile.py /build/
RUN python3 /build/prune.py .venv
COPY ui ui
RUN .venv/bin/python /build/compile.py app

FROM ${BASE} AS runtime
RUN groupadd --gid 10001 retrieval && \
    useradd --uid 10001 --gid 10001 --no-create-home --home-dir /var/lib/retrieval --shell /usr/sbin/nologin retrieval && \
    install -d -o 10001 -g 10001 -m 0700 /var/lib/retrieval
ENV PATH=/opt/retrieval/.venv/bin:$PATH HOME=/var/lib/retrieval RETRIEVAL_HOME=/var/lib/retrieval \
    PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 DO_NOT_TRACK=1
WORKDIR /opt/retrieval
USER 10001:10001
VOLUME /var/lib/retrieval
STOPSIGNAL SIGTERM

FROM runtime AS app
ENV RETRIEVAL_API_URL=http://api:8000 RETRIEVAL_UI_SIGN_INS=/var/lib/retrieval/sign-ins
COPY --from=app-packages /opt/retrieval /opt/retrieval
EXPOSE 8501
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8501/_stcore/health', timeout=4)"]
ENTRYPOINT ["python", "-m", "streamlit", "run", "ui/server.py", "--server.address=0.0.0.0", "--server.port=8501"]

FROM runtime AS service
# The only Debian packages of what runs: tesseract reads scripts that the packaged recognition does not. TESSERACT_LANGS
# names language packs as tesseract does, such as "eng osd deu rus"; empty leaves tesseract out.
ARG TESSERACT_LANGS="eng osd"
USER root
RUN if [ -n "$TESSERACT_LANGS" ]; then \
        packages="tesseract-ocr $(echo "$TESSERACT_LANGS" | tr _ - | sed 's/[^ ][^ ]*/tesseract-ocr-&/g')"; \
        apt-get update -qq && apt-get install -y -qq --no-install-recommends $packages >/dev/null && \
        rm -rf /var/lib/apt/lists/*; \
    fi
USER 10001:10001
ENV RETRIEVAL_API_HOST=0.0.0.0 RETRIEVAL_LOG_FORMAT=json
COPY --from=service-packages /opt/retrieval /opt/retrieval
EXPOSE 8000 4200
# Without a role's name: the one that this container runs.
HEALTHCHECK --interval=10s --timeout=10s --start-period=120s --retries=3 CMD ["retrieval", "ready"]
ENTRYPOINT ["retrieval"]
CMD ["api"]
