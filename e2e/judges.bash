# What the judges of simulated clouds have in common; e2e/<cloud>/run sources it after setting
#
#   cloud    the name of the simulator
#   home     the folder of its judges: fixtures, go/, python/requirements.txt
#
# It builds bowline (or takes $BOWLINE), makes $folder, which goes at the end, and offers simulate, go_tour,
# python_environment, judge and verdict. Needs Go, Python 3.10 with venv, and for the first run their registries.

fail() {
    printf 'e2e/%s/run: %s\n' "$cloud" "$*" >&2
    exit 1
}

command -v go >/dev/null ||
    fail "Go is missing: install Go $(sed -n 's/^go //p' "$home/go/go.mod") or newer (https://go.dev/dl, Debian: golang-go), and run this again"
command -v python3 >/dev/null ||
    fail "Python is missing: install Python 3.10 or newer (https://python.org, Debian: python3 python3-venv), and run this again"
python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' 2>/dev/null ||
    fail "Python 3.10 or newer with venv is needed, this is $(python3 --version): install it (Debian: python3-venv), and run this again"

if [[ -z ${BOWLINE:-} ]]; then
    cargo build --locked --quiet --bin bowline || exit 1
    BOWLINE=${CARGO_TARGET_DIR:-target}/debug/bowline
fi
bowline=$(realpath "$BOWLINE") || exit 1

folder=$(mktemp -d)
started=()
stop() {
    for id in "${started[@]}"; do kill "$id" 2>/dev/null; done
    wait
    rm -rf "$folder"
}
trap stop EXIT

# simulate FIXTURE FLAGS…: starts a cloud, and sets $root to where it listens (or its control handle, if that is apart).
simulate() {
    local greeting=$folder/$1.${#started[@]}.greeting tries=100
    "$bowline" simulate "$cloud" --listen 127.0.0.1:0 --fixture "$home/$1.yaml" "${@:2}" >"$greeting" 2>&1 &
    started+=($!)
    until root=$(grep -oE 'https?://[0-9.:]*' "$greeting" 2>/dev/null); do
        ((tries-- > 0)) && kill -0 $! 2>/dev/null || fail "the simulator did not start: $(cat "$greeting")"
        sleep 0.1
    done
    root=${root%%$'\n'*}
}

# go_tour: builds the judge of Go as $folder/tour. Hashes of all modules are in go.sum, so nothing but them is
# asked of the network.
go_tour() {
    export GOFLAGS=-mod=readonly
    (cd "$home/go" && go vet ./... && CGO_ENABLED=0 go build -o "$folder/tour" .) || fail "the Go judge cannot be built"
}

# python_environment: sets $environment to one that holds the judges of Python, made once for each list of versions.
python_environment() {
    local cache key
    cache=${BOWLINE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/bowline}/$cloud-python
    key=$({ python3 -c 'import sys; print(sys.version, sys.prefix)' && cat "$home/python/requirements.txt"; } | sha256sum | cut -c 1-16)
    environment=$cache/$key
    if [[ ! -f $environment/complete ]]; then
        echo "installing the Python judges" >&2
        rm -rf "$environment"
        python3 -m venv "$environment" || fail "python3 -m venv failed (Debian: install python3-venv)"
        "$environment/bin/pip" install --quiet --disable-pip-version-check -r "$home/python/requirements.txt" ||
            fail "the Python judges cannot be installed"
        touch "$environment/complete"
    fi
    # The mark's age tells when it was used last; what nobody has used for a month goes.
    touch "$environment/complete"
    find "$cache" -mindepth 2 -maxdepth 2 -name complete -mtime +30 -printf '%h\0' | xargs -0 -r rm -rf
}

passed=0
failed=0
# count FILE: adds up what the judges said.
count() {
    local good bad
    while read -r good bad; do
        passed=$((passed + good))
        failed=$((failed + bad))
    done < <(sed -nE 's/^.*: ([0-9]+) checks passed, ([0-9]+) failed$/\1 \2/p' "$1")
}
# judge NAME COMMAND…: shows what it says, and remembers it. One that ends badly without a verdict has failed.
judge() {
    local before=$failed
    timeout 900 "${@:2}" 2>&1 | tee "$folder/$1.said"
    local code=${PIPESTATUS[0]}
    count "$folder/$1.said"
    if ((code != 0 && failed == before)); then
        echo "FAILED: the judge $1 ended with $code" >&2
        failed=$((failed + 1))
    fi
}

# verdict: says how many checks there were; good if there were some, and none failed.
verdict() {
    echo "$passed checks passed, $failed failed"
    ((failed == 0 && passed > 0))
}
