module bowline/e2e/judge

go 1.23.0
