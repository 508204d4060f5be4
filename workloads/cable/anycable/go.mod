module carat/workloads/cable/anycable

go 1.24

tool github.com/anycable/anycable-go/cmd/anycable-go

require (
	github.com/FZambia/sentinel v1.1.1 // indirect
	github.com/anycable/anycable-go v1.5.0 // indirect
	github.com/bufbuild/protocompile v0.7.1 // indirect
	github.com/cpuguy83/go-md2man/v2 v2.0.3 // indirect
	github.com/fullstorydev/grpchan v1.1.1 // indirect
	github.com/go-chi/chi/v5 v5.0.11 // indirect
	github.com/golang-jwt/jwt v3.2.2+incompatible // indirect
	github.com/golang/protobuf v1.5.3 // indirect
	github.com/gomodule/redigo v1.8.9 // indirect
	github.com/google/gops v0.3.28 // indirect
	github.com/google/uuid v1.5.0 // indirect
	github.com/gorilla/websocket v1.5.1 // indirect
	github.com/hofstadter-io/cinful v1.0.0 // indirect
	github.com/jhump/protoreflect v1.15.4 // indirect
	github.com/joomcode/errorx v1.1.1 // indirect
	github.com/klauspost/compress v1.17.4 // indirect
	github.com/lmittmann/tint v1.0.4 // indirect
	github.com/matoous/go-nanoid v1.5.0 // indirect
	github.com/mattn/go-isatty v0.0.20 // indirect
	github.com/minio/highwayhash v1.0.2 // indirect
	github.com/mitchellh/go-mruby v0.0.0-20200315023956-207cedc21542 // indirect
	github.com/nats-io/jwt/v2 v2.5.3 // indirect
	github.com/nats-io/nats-server/v2 v2.10.7 // indirect
	github.com/nats-io/nats.go v1.31.0 // indirect
	github.com/nats-io/nkeys v0.4.7 // indirect
	github.com/nats-io/nuid v1.0.1 // indirect
	github.com/posthog/posthog-go v0.0.0-20240110105835-f2ee529330e9 // indirect
	github.com/redis/rueidis v1.0.26 // indirect
	github.com/russross/blackfriday/v2 v2.1.0 // indirect
	github.com/smira/go-statsd v1.3.3 // indirect
	github.com/sony/gobreaker v0.5.0 // indirect
	github.com/urfave/cli/v2 v2.27.1 // indirect
	github.com/xrash/smetrics v0.0.0-20231213231151-1d8dd44e695e // indirect
	go.uber.org/automaxprocs v1.5.3 // indirect
	golang.org/x/crypto v0.18.0 // indirect
	golang.org/x/exp v0.0.0-20240110193028-0dcbfd608b1e // indirect
	golang.org/x/net v0.20.0 // indirect
	golang.org/x/sys v0.16.0 // indirect
	golang.org/x/text v0.14.0 // indirect
	golang.org/x/time v0.5.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20240108191215-35c7eff3a6b1 // indirect
	google.golang.org/grpc v1.60.1 // indirect
	google.golang.org/protobuf v1.32.0 // indirect
)
