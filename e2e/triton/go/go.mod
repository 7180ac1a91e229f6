module bowline/e2e/triton

go 1.26

require bowline/e2e/judge v0.0.0

replace bowline/e2e/judge => ../../judge

require github.com/joyent/triton-go v1.7.1-0.20200416154420-6801d15b779f

require (
	github.com/pkg/errors v0.8.1 // indirect
	golang.org/x/crypto v0.0.0-20190611184440-5c40567a22f8 // indirect
	golang.org/x/sys v0.0.0-20190515120540-06a5c4944438 // indirect
)
