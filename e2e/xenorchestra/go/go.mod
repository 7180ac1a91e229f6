module bowline/e2e/xenorchestra

go 1.26

require bowline/e2e/judge v0.0.0

replace bowline/e2e/judge => ../../judge

require (
	github.com/gofrs/uuid v4.4.0+incompatible
	github.com/gorilla/websocket v1.5.3
	github.com/vatesfr/xenorchestra-go-sdk v1.16.0
)

require (
	github.com/cenkalti/backoff/v3 v3.2.2 // indirect
	github.com/mitchellh/mapstructure v1.5.0 // indirect
	github.com/sourcegraph/jsonrpc2 v0.2.1 // indirect
	github.com/subosito/gotenv v1.6.0 // indirect
	go.uber.org/multierr v1.11.0 // indirect
	go.uber.org/zap v1.27.1 // indirect
	golang.org/x/text v0.25.0 // indirect
)
