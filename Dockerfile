# One recipe for every service: docker build --build-arg SERVICE=counts . And for the lab: --build-arg SERVICE=rowlock --build-arg MODULE=lab
# hack/image-stage carries out the stage `build` without Docker, so keep to instructions that it knows; hack/image-last builds the last
# stage by buildah.
ARG GO_VERSION=1.26

# The compiler runs on the builder's own platform and crosses to the target's: no emulation.
FROM --platform=$BUILDPLATFORM golang:${GO_VERSION} AS build
ARG SERVICE
ARG MODULE=services/${SERVICE}
ARG VERSION=devel
ARG TARGETOS
ARG TARGETARCH
# Without it gRPC brings its debug pages along, and a template interpreter that calls methods by name: then the linker keeps every
# method of every type, a fifth of the binary. make build and hack/verify read it here: what is tested is what ships.
ARG GO_TAGS=grpcnotrace
# An image holds client, platform and one module, so there is no workspace: the replace lines of go.mod lead to the two.
ENV CGO_ENABLED=0 GOWORK=off
WORKDIR /src
RUN test -n "${SERVICE}" || { echo "which service? --build-arg SERVICE=counts" >&2; exit 1; }
# Dependencies first: this layer lasts until a go.mod changes.
COPY client/go.mod client/go.sum client/
COPY platform/go.mod platform/go.sum platform/
COPY ${MODULE}/go.mod ${MODULE}/go.sum ${MODULE}/
RUN --mount=type=cache,target=/go/pkg/mod go -C ${MODULE} mod download
COPY client client/
COPY platform platform/
COPY ${MODULE} ${MODULE}/
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    GOOS=${TARGETOS} GOARCH=${TARGETARCH} go -C ${MODULE} build -trimpath -tags ${GO_TAGS} \
    -ldflags "-s -w -X github.com/rowlock/rowlock/platform/lifecycle.version=${VERSION}" \
    -o "$PWD/service.bin" ./cmd/${SERVICE}

FROM scratch
ARG SERVICE
ARG VERSION=devel
ARG REVISION=
LABEL org.opencontainers.image.title="rowlock ${SERVICE}" \
      org.opencontainers.image.description="One of Rowlock's services: correct at any number of replicas, because the database does the locking" \
      org.opencontainers.image.source="https://github.com/rowlock/rowlock" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
# For TLS to the database and to the trace collector.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /src/service.bin /service
# By number: Kubernetes' runAsNonRoot cannot check a name.
USER 65532:65532
# HTTP_ADDR and ADMIN_ADDR.
EXPOSE 8080 9090
ENTRYPOINT ["/service"]
