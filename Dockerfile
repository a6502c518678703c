# One recipe for every service: docker build --build-arg SERVICE=counts . And for the lab: --build-arg SERVICE=rowlock --build-arg MODULE=lab
# hack/image-stage carries out the stage `build` without Docker, so keep to instructions that it knows; hack/image-last builds the last
# stage by buildah.

# The compiler runs on the builder's own platform and crosses to the target's: no emulation. hack/verify refuses an image without a
# digest; Dependabot renews version and digest together, which it cannot do for a variable. When the toolchain line of go.mod, copied
# from go.work, is newer than this image, GOTOOLCHAIN=auto fetches that compiler from the module proxy and checks it by Go's checksum
# database.
FROM --platform=$BUILDPLATFORM golang:1.26.8@sha256:9d2f36f06329b2a141b9db99ffa32765cf695ee57b813ca29e245e8670bcbfff AS build
ARG SERVICE
ARG MODULE=services/${SERVICE}
ARG VERSION=devel
ARG TARGETOS
ARG TARGETARCH
# Without it gRPC brings its debug pages along, and a template interpreter that calls methods by name: then the linker keeps every
# method of every type, a fifth of the binary. make build and hack/verify read it here: what is tested is what ships.
ARG GO_TAGS=grpcnotrace
# An image holds client, platform and one module, so there is no workspace: the replace lines of go.mod lead to the two.
ENV CGO_ENABLED=0 GOWORK=off GOTOOLCHAIN=auto
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
    -o "$PWD/image/service" ./cmd/${SERVICE}
# The licence texts and notices of Rowlock, of Go and of each linked module, in a folder of the module's name and version.
COPY LICENSE image/licenses/
RUN --mount=type=cache,target=/go/pkg/mod \
    install -D -m 644 "$(go -C ${MODULE} env GOROOT)/LICENSE" image/licenses/go/LICENSE && \
    cache=$(go env GOMODCACHE) && \
    dirs=$(GOOS=${TARGETOS} GOARCH=${TARGETARCH} go -C ${MODULE} list -deps -tags ${GO_TAGS} \
    -f '{{with .Module}}{{if not (or .Main (and .Replace (not .Replace.Version)))}}{{.Dir}} {{$.Dir}}{{end}}{{end}}' ./cmd/${SERVICE}) && \
    cd "$cache" && find $(printf '%s\n' $dirs | sed "s|^$cache/||" | sort -u) -maxdepth 1 -type f ! -name '*.go' \
    '(' -iname 'licen[cs]e*' -o -iname 'copying*' -o -iname 'notice*' -o -iname 'patents*' ')' \
    -exec cp --parents --no-preserve=mode -t "$OLDPWD/image/licenses" {} +

FROM scratch
ARG SERVICE
ARG VERSION=devel
ARG REVISION=
ARG CREATED=
LABEL org.opencontainers.image.title="rowlock ${SERVICE}" \
      org.opencontainers.image.description="One of Rowlock's services: correct at any number of replicas, because the database does the locking" \
      org.opencontainers.image.source="https://github.com/rowlock/rowlock" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}" \
      org.opencontainers.image.base.name="scratch"
# For TLS to the database and to the trace collector.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /src/image /
# By number: Kubernetes' runAsNonRoot cannot check a name.
USER 65532:65532
# HTTP_ADDR and ADMIN_ADDR.
EXPOSE 8080 9090
ENTRYPOINT ["/service"]
