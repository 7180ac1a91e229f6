"""The official Python client as a judge of the simulated Exoscale.

It is made from the API's published description, which it brings along: every answer is held against that
too, so that a field of a wrong name or type is found even if nobody asks for it.
EXOSCALE_API_ENDPOINT is the root of the API with /v2.
"""

import os
import re
import sys
import time
import traceback

from exoscale.api.exceptions import ExoscaleAPIException, ExoscaleAPIServerException
from exoscale.api.v2 import Client

# What anything that the tour waits for takes at most; in this cloud it is less than a second.
PATIENCE = 10
PAUSE = 0.05
UNKNOWN = "00000000-0000-4000-8000-000000000000"
WORKERS = "0f0e0d0c-0b0a-4908-8706-050403020100"
INSTANCE = "6f1d2c3b-7a55-4e0c-9b61-2d3e4f5a6b7c"
FORMATS = {
    "uuid": r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    "ipv4": r"\d+(\.\d+){3}",
    "date-time": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ",
}
# What the real API sends although its description does not say so.
UNDESCRIBED = {"zones[].id"}


class Description:
    """What the published description allows."""

    def __init__(self, spec):
        self.spec = spec

    def resolve(self, schema):
        while "$ref" in schema:
            found = self.spec
            for part in schema["$ref"].lstrip("#/").split("/"):
                found = found[part]
            schema = found
        return schema

    def mistakes(self, value, schema, place=""):
        """What is wrong with a value."""
        schema = self.resolve(schema)
        kinds = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}
        kind = kinds.get(schema.get("type"))
        if kind and (not isinstance(value, kind) or (kind is int and isinstance(value, bool))):
            return [f"{place} is no {schema['type']}: {value!r}"]
        if value not in schema.get("enum", [value]):
            return [f"{place} is none of {schema['enum']}: {value!r}"]
        pattern = FORMATS.get(schema.get("format"))
        if pattern and not re.fullmatch(pattern, value):
            return [f"{place} is no {schema['format']}: {value!r}"]
        if isinstance(value, list):
            return [text for one in value for text in self.mistakes(one, schema.get("items", {}), f"{place}[]")]
        if isinstance(value, dict):
            return self.members(value, schema, place)
        return []

    def members(self, value, schema, place):
        known, found = schema.get("properties"), []
        for name, one in value.items():
            inner = f"{place}.{name}" if place else name
            if known is not None and name in known:
                found += self.mistakes(one, known[name], inner)
            elif known is not None and not schema.get("additionalProperties") and inner not in UNDESCRIBED:
                found.append(f"{inner} is not described")
        return found


class Judge:
    """Counts what it finds right and wrong."""

    def __init__(self, name):
        self.name, self.passed, self.failed = name, 0, 0

    def check(self, right, what, seen=None):
        if right:
            self.passed += 1
            return
        self.failed += 1
        stack = [frame for frame in traceback.extract_stack() if frame.name in PARTS]
        line = stack[-1].lineno if stack else 0
        print(f"FAILED in line {line}: {what}\n  seen: {seen}")

    def equal(self, what, got, want):
        self.check(got == want, what, f"{got!r}, wanted {want!r}")

    def verdict(self):
        print(f"{self.name}: {self.passed} checks passed, {self.failed} failed")
        return self.failed == 0


class Described(Client):
    """The client, with an eye on what it is answered."""

    judge, seen = None, set()

    def _call_operation(self, operation_id, parameters=None, body=None):
        answer = super()._call_operation(operation_id, parameters, body)
        operation = self._by_operation[operation_id]["operation"]
        schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
        mistakes = Description(self._api_spec).mistakes(answer, schema)
        # Counted once, as nobody knows how often the tour has to look.
        if mistakes or operation_id not in self.seen:
            self.seen.add(operation_id)
            self.judge.check(not mistakes, f"{operation_id} answers as described", mistakes[:5])
        return answer


class Tour(Judge):
    """The tour."""

    def __init__(self):
        super().__init__("exoscale")
        Described.judge = self
        self.cloud = self.client("EXO00000000000000000000000a", "everything")

    def client(self, key, secret, url=None):
        return Described(key, secret, url=url or os.environ["EXOSCALE_API_ENDPOINT"])

    def refused(self, what, status, fragment, call, *arguments, **options):
        try:
            answer = call(*arguments, **options)
        except ExoscaleAPIException as error:
            right = error.response is not None and error.response.status_code == status and fragment in str(error)
            self.check(right, what, error)
            if error.response is not None:
                body = error.response.json()
                self.check(isinstance(body.get("message"), str), f"{what}: a message", body)
        else:
            self.check(False, what, answer)

    def done(self, what, operation):
        """Waits for an operation more often than the client does, and returns what it is about."""
        self.equal(f"{what}: it is pending", operation["state"], "pending")
        until = time.monotonic() + PATIENCE
        while operation["state"] == "pending" and time.monotonic() < until:
            time.sleep(PAUSE)
            operation = self.cloud.get_operation(id=operation["id"])
        self.equal(f"{what}: it succeeds", operation["state"], "success")
        return operation["reference"]["id"]

    def zones(self):
        zones = self.cloud.list_zones()["zones"]
        self.equal("their names", [zone["name"] for zone in zones], ["ch-gva-2", "at-vie-1"])
        other = self.client("EXO00000000000000000000000a", "everything", zones[1]["api-endpoint"])
        pools = other.list_instance_pools()["instance-pools"]
        self.equal("what is in the other zone", [pool["name"] for pool in pools], ["elsewhere"])
        self.refused("an instance of the first zone", 404, "", other.get_instance, id=INSTANCE)

    def catalogue(self):
        types = self.cloud.list_instance_types()["instance-types"]
        medium = next(one for one in types if (one["family"], one["size"]) == ("standard", "medium"))
        self.equal("what is listed is what is read", self.cloud.get_instance_type(id=medium["id"]), medium)
        templates = self.cloud.list_templates()["templates"]
        self.kind, self.template = {"id": medium["id"]}, {"id": templates[0]["id"]}
        for what in ("ssh_keys", "security_groups", "anti_affinity_groups", "elastic_ips", "private_networks"):
            answer = getattr(self.cloud, f"list_{what}")()
            self.equal(f"the key of {what}", list(answer), [what.replace("_", "-")])
        quotas = {one["resource"]: one for one in self.cloud.list_quotas()["quotas"]}
        self.equal("a quota", quotas["network-load-balancer"]["limit"], 3)
        self.refused("a quota that does not exist", 404, "", self.cloud.get_quota, entity="patience")

    def instances(self):
        one = self.cloud.get_instance(id=INSTANCE)
        self.equal("its name", one["name"], "Pool-a1b2c-xyz")
        self.equal("its manager", one["manager"], {"id": WORKERS, "type": "instance-pool"})
        self.equal("its type is only named", list(one["instance-type"]), ["id"])
        listed = {it["id"]: it for it in self.cloud.list_instances()["instances"]}
        self.equal("a list tells the same", {key: one[key] for key in listed[INSTANCE]}, listed[INSTANCE])
        for options, count in (
            ({"ip_address": "198.51.100.21"}, 1),
            ({"manager_id": WORKERS, "manager_type": "instance-pool"}, 3),
            ({"labels": "env=prod"}, 1),
        ):
            found = self.cloud.list_instances(**options)["instances"]
            self.equal(f"found by {list(options)}", len(found), count)
        made = self.cloud.create_instance(
            name="tourist", disk_size=20, instance_type=self.kind, template=self.template, public_ip_assignment="dual"
        )
        self.equal("it starts", self.cloud.get_instance(id=made["reference"]["id"])["state"], "starting")
        # Once as patiently as the client itself.
        identity = self.cloud.wait(made["id"], max_wait_time=60)["reference"]["id"]
        self.equal("it runs", self.cloud.get_instance(id=identity)["state"], "running")
        self.refused("start what runs", 400, "must be stopped", self.cloud.start_instance, id=identity)
        self.done("stop", self.cloud.stop_instance(id=identity))
        self.equal("it is stopped", self.cloud.get_instance(id=identity)["state"], "stopped")
        self.done("start", self.cloud.start_instance(id=identity))
        self.done("delete", self.cloud.delete_instance(id=identity))
        self.refused("it is gone", 404, "", self.cloud.get_instance, id=identity)

    def pools(self):
        made = self.cloud.create_instance_pool(
            name="tourists", size=2, disk_size=20, instance_type=self.kind, template=self.template
        )
        pool = self.done("create", made)
        members = self.members(pool, 2)
        name = self.cloud.get_instance(id=members[0])["name"]
        self.check(re.fullmatch(r"pool-[0-9a-f]{5}-[a-z0-9]{5}", name), "the name of a member", name)
        self.done("scale up", self.cloud.scale_instance_pool(id=pool, size=3))
        members = self.members(pool, 3)
        self.done("evict", self.cloud.evict_instance_pool_members(id=pool, instances=members[:1]))
        self.equal("the others stay", self.members(pool, 2), members[1:])
        self.refused("it is gone", 404, "", self.cloud.get_instance, id=members[0])
        self.done("scale down", self.cloud.scale_instance_pool(id=pool, size=1))
        self.done("delete", self.cloud.delete_instance_pool(id=pool))
        self.refused("the pool is gone", 404, "", self.cloud.get_instance_pool, id=pool)

    def members(self, pool, count):
        shown = self.cloud.get_instance_pool(id=pool)
        found = [one["id"] for one in shown["instances"]]
        self.equal("size and members", (shown["size"], len(found)), (count, count))
        return found

    def balancers(self):
        first = self.done("create", self.cloud.create_load_balancer(name="one", description="d", labels={"a": "b"}))
        until = time.monotonic() + PATIENCE
        while "ip" not in self.cloud.get_load_balancer(id=first) and time.monotonic() < until:
            time.sleep(PAUSE)
        shown = self.cloud.get_load_balancer(id=first)
        self.equal("its state and labels", (shown["state"], shown["labels"]), ("running", {"a": "b"}))
        self.equal("the list", self.cloud.list_load_balancers()["load-balancers"], [shown])
        self.refused("a name twice", 409, "must be unique", self.cloud.create_load_balancer, name="one")
        self.done("rename", self.cloud.update_load_balancer(id=first, name="uno"))
        self.done("reset", self.cloud.reset_load_balancer_field(id=first, field="description"))
        shown = self.cloud.get_load_balancer(id=first)
        self.equal("its name", (shown["name"], shown.get("description")), ("uno", None))
        self.services(first)
        operation = self.cloud.delete_load_balancer(id=first)
        self.equal("it is going", self.cloud.get_load_balancer(id=first)["state"], "deleting")
        self.done("delete", operation)
        self.refused("it is gone", 404, "", self.cloud.get_load_balancer, id=first)

    def services(self, balancer):
        check = {"mode": "http", "port": 30080, "uri": "/healthz", "interval": 10, "timeout": 5, "retries": 1}
        wanted = dict(
            name="web", description="front", instance_pool={"id": WORKERS}, protocol="tcp",
            strategy="round-robin", port=80, target_port=30080, healthcheck=check,
        )
        about = self.done("add", self.cloud.add_service_to_load_balancer(id=balancer, **wanted))
        self.equal("it is about the load balancer", about, balancer)
        service = self.cloud.get_load_balancer(id=balancer)["services"][0]
        for name, value in wanted.items():
            self.equal(f"its {name}", service[name.replace("_", "-")], value)
        self.equal("all members are well", [one["status"] for one in service["healthcheck-status"]], ["success"] * 3)
        own = {"id": balancer, "service_id": service["id"]}
        self.equal("alone", self.cloud.get_load_balancer_service(**own), service)
        self.refused("twice", 409, "80/tcp", self.cloud.add_service_to_load_balancer, id=balancer, **wanted)
        changes = {"target_port": 30090, "healthcheck": {"mode": "tcp", "port": 30090}}
        self.done("change", self.cloud.update_load_balancer_service(**own, **changes))
        changed = self.cloud.get_load_balancer_service(**own)
        self.equal("changed", (changed["target-port"], changed["healthcheck"].get("uri")), (30090, None))
        self.done("reset", self.cloud.reset_load_balancer_service_field(**own, field="description"))
        for field, value, fragment in (
            ("port", 0, "port must be between 1 and 65535"),
            ("target_port", 70000, "target-port must be between 1 and 65535"),
            ("protocol", "sctp", "protocol must be one of"),
            ("healthcheck", {"mode": "http", "port": 1}, "healthcheck.uri is missing"),
            ("healthcheck", {"mode": "tcp", "port": 1, "interval": 301}, "healthcheck.interval must be between"),
            ("name", "", "name must have 1 to 255 characters"),
        ):
            bad = {**wanted, "port": 81, field: value}
            self.refused(f"{field} {value}", 400, fragment, self.cloud.add_service_to_load_balancer, id=balancer, **bad)
        nowhere = {**wanted, "port": 81, "instance_pool": {"id": UNKNOWN}}
        self.refused("no such pool", 404, UNKNOWN, self.cloud.add_service_to_load_balancer, id=balancer, **nowhere)
        self.refused("the pool is held", 403, "Locked by NLB", self.cloud.delete_instance_pool, id=WORKERS)
        self.done("delete", self.cloud.delete_load_balancer_service(**own))
        self.refused("gone", 404, "", self.cloud.get_load_balancer_service, **own)

    def clusters(self):
        cluster = self.cloud.list_sks_clusters()["sks-clusters"][0]
        self.equal("its name", cluster["name"], "prod")
        self.equal("what is listed is what is read", self.cloud.get_sks_cluster(id=cluster["id"]), cluster)
        pool = self.cloud.get_instance_pool(id=cluster["nodepools"][0]["instance-pool"]["id"])
        self.equal("who manages it", pool["manager"]["type"], "sks-nodepool")

    def roles(self):
        reader = self.client("EXO00000000000000000000000b", "only-look")
        reader.list_load_balancers()
        self.refused("create", 403, "create-load-balancer", reader.create_load_balancer, name="no")
        wrong = self.client("EXO00000000000000000000000a", "nothing")
        self.refused("a wrong secret", 403, "Invalid request signature", wrong.list_instances)
        self.check("zones" in wrong.list_zones(), "the list of zones is public")
        self.refused("an operation that does not exist", 404, "", self.cloud.get_operation, id=UNKNOWN)
        try:
            self.cloud.wait(UNKNOWN, max_wait_time=1)
        except ExoscaleAPIServerException as error:
            self.check(False, "waiting for it is the caller's mistake", error)
        except ExoscaleAPIException:
            self.check(True, "")


PARTS = ("zones", "catalogue", "instances", "pools", "balancers", "services", "clusters", "roles")

if __name__ == "__main__":
    tour = Tour()
    for part in PARTS:
        if part != "services":
            getattr(tour, part)()
    sys.exit(0 if tour.verdict() else 1)
