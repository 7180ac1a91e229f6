module bowline/e2e/cloudscale

go 1.23.0

require bowline/e2e/judge v0.0.0

replace bowline/e2e/judge => ../../judge

require (
	github.com/cenkalti/backoff/v5 v5.0.2
	github.com/cloudscale-ch/cloudscale-go-sdk/v6 v6.0.0
)

require golang.org/x/oauth2 v0.29.0 // indirect
