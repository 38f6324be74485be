# The HTTP service for one model folder, mounted at /model. See docs/guides/serving.md.
ARG PYTHON=3.11-slim-bookworm

FROM python:${PYTHON} AS build
# PyTorch's own index of CPU builds may be given here; the package index alone brings the CUDA build, several GB larger.
ARG PIP_EXTRA_INDEX_URL=
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv /opt/maskedcrf
ENV PATH=/opt/maskedcrf/bin:$PATH
WORKDIR /source
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src ./src
RUN pip install --constraint constraints.txt '.[serve,transformers]'
# The CRF is compiled here, not at the first request.
RUN NUMBA_CACHE_DIR=/opt/kernels maskedcrf warm-up

FROM python:${PYTHON}
RUN useradd --system --uid 10001 --user-group --home-dir /nonexistent --shell /usr/sbin/nologin tagger
COPY --from=build /opt/maskedcrf /opt/maskedcrf
COPY --from=build --chown=10001:10001 /opt/kernels /opt/kernels
# On a read-only file system the compiled CRF is copied to /tmp; another kind of processor compiles its own there. No
# model is ever fetched.
ENV PATH=/opt/maskedcrf/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    NUMBA_CACHE_DIR=/opt/kernels \
    HF_HUB_OFFLINE=1
USER 10001:10001
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=15s --timeout=5s --start-period=120s --retries=3 \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/health', timeout=4)"]
ENTRYPOINT ["maskedcrf", "serve", "/model", "--host", "0.0.0.0", "--port", "8000"]
# Answer to this machine's names only; behind a proxy, give its name with --name instead.
CMD ["--name", "localhost"]
