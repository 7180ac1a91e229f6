"""The official Python SDK and command line as judges of the simulated cloudscale.ch.

They know servers, networks, subnets, floating IPs, server groups and volumes, and no load balancers.
CLOUDSCALE_API_URL includes /v1, as for everything that is built on this SDK.
"""

import json
import os
import subprocess
import sys
import time
import traceback

from cloudscale import Cloudscale, CloudscaleApiException

# What anything that the tour waits for takes at most; in this cloud it is less than a second.
PATIENCE = 10
PAUSE = 0.05


class Judge:
    """Counts what it finds right and wrong."""

    def __init__(self, name):
        self.name, self.passed, self.failed = name, 0, 0

    def check(self, right, what, seen=None):
        if right:
            self.passed += 1
            return
        self.failed += 1
        helpers = ("check", "equal", "refused", "made", "settled", "shows", "refuses", "json")
        stack = reversed(traceback.extract_stack())
        line = next(frame.lineno for frame in stack if frame.name not in helpers)
        print(f"FAILED in line {line}: {what}\n  seen: {seen}")

    def equal(self, what, got, want):
        self.check(got == want, what, f"{got!r}, wanted {want!r}")

    def verdict(self):
        print(f"{self.name}: {self.passed} checks passed, {self.failed} failed")
        return self.failed == 0


class Sdk(Judge):
    """The SDK, called from here."""

    def __init__(self):
        super().__init__("cloudscale-sdk")
        self.cloud = Cloudscale(api_token=os.environ["CLOUDSCALE_API_TOKEN"])

    def refused(self, what, status, fragment, call, *arguments, **options):
        try:
            answer = call(*arguments, **options)
        except CloudscaleApiException as error:
            right = error.status_code == status and fragment in str(error.response["data"])
            self.check(right, what, f"{error.status_code} {error.response}")
        else:
            self.check(False, what, answer)

    def made(self, resource, **attributes):
        """Makes something; what is read must be what was made."""
        made = resource.create(**attributes)
        identity = made["href"].rsplit("/", 1)[1]
        self.equal("what was made is what is read", resource.get_by_uuid(identity), made)
        return made

    def settled(self, uuid, status):
        until = time.monotonic() + PATIENCE
        while True:
            server = self.cloud.server.get_by_uuid(uuid)
            if server["status"] != "changing" or time.monotonic() > until:
                break
            time.sleep(PAUSE)
        self.equal("its status", server["status"], status)
        return server

    def tour(self):
        self.catalogue()
        network, subnet = self.networks()
        server = self.servers(network, subnet)
        self.floating_ips(server)
        self.cloud.server.delete(server["uuid"])
        self.refused("a deleted server", 404, "Not found.", self.cloud.server.get_by_uuid, server["uuid"])
        self.cloud.subnet.delete(subnet["uuid"])
        self.cloud.network.delete(network["uuid"])
        self.equal("no network is left", self.cloud.network.get_all(filter_tag="tour"), [])
        self.strangers()

    def catalogue(self):
        slugs = {region["slug"] for region in self.cloud.region.get_all()}
        self.equal("the regions", slugs, {"rma", "lpg"})
        flavors = {flavor["slug"]: flavor for flavor in self.cloud.flavor.get_all()}
        self.equal("a flavor", flavors["flex-4-2"]["vcpu_count"], 2)
        images = {image["slug"] for image in self.cloud.image.get_all()}
        self.check("debian-12" in images, "an image", images)
        self.equal("no custom images", self.cloud.custom_image.get_all(), [])
        self.equal("no objects users", self.cloud.objects_user.get_all(), [])

    def networks(self):
        networks, subnets = self.cloud.network, self.cloud.subnet
        network = self.made(
            networks, name="tour", zone="rma1", mtu=1500, auto_create_ipv4_subnet=False, tags={"tour": "python"}
        )
        self.equal("no subnet", network["subnets"], [])
        networks.update(network["uuid"], name="renamed")
        networks.update(network["uuid"], mtu=9000)
        read = networks.get_by_uuid(network["uuid"])
        self.equal("changed", (read["name"], read["mtu"]), ("renamed", 9000))
        self.refused("two changes at once", 400, "Only one attribute", networks.update, network["uuid"], name="a", mtu=1)
        subnet = self.made(subnets, cidr="192.168.7.0/24", network_uuid=network["uuid"], gateway_address="192.168.7.1")
        self.equal("its network", subnet["network"]["uuid"], network["uuid"])
        self.equal("two resolvers", len(subnet["dns_servers"]), 2)
        subnets.update(subnet["uuid"], dns_servers=["9.9.9.9"])
        subnets.update(subnet["uuid"], gateway_address="192.168.7.2")
        read = subnets.get_by_uuid(subnet["uuid"])
        self.equal("changed", (read["dns_servers"], read["gateway_address"]), (["9.9.9.9"], "192.168.7.2"))
        self.refused(
            "a subnet that is none", 400, "CIDR notation", subnets.create, cidr="192.168.8.1/24", network_uuid=network["uuid"]
        )
        for tag, count in (("tour", 1), ("tour=python", 1), ("tour=other", 0), ("other", 0)):
            self.equal(f"networks with the tag {tag}", len(networks.get_all(filter_tag=tag)), count)
        return network, subnet

    def servers(self, network, subnet):
        servers = self.cloud.server
        group = self.made(self.cloud.server_group, name="tour", group_type="anti-affinity")
        server = self.made(
            servers,
            name="tour",
            flavor="flex-4-2",
            image="debian-12",
            interfaces=[{"network": "public"}, {"addresses": [{"subnet": subnet["uuid"], "address": "192.168.7.7"}]}],
            server_groups=[group["uuid"]],
            tags={"role": "worker"},
        )
        self.equal("a new server", server["status"], "changing")
        self.refused("delete it now", 400, "created", servers.delete, server["uuid"])
        server = self.settled(server["uuid"], "running")
        self.equal("its kinds of interfaces", [i["type"] for i in server["interfaces"]], ["public", "private"])
        self.equal("its address", server["interfaces"][1]["addresses"][0]["address"], "192.168.7.7")
        self.equal("its network", server["interfaces"][1]["network"]["uuid"], network["uuid"])
        self.equal("its group", server["server_groups"][0]["uuid"], group["uuid"])
        volume = self.cloud.volume.get_by_uuid(server["volumes"][0]["uuid"])
        self.equal("its volume", volume["server_uuids"], [server["uuid"]])
        for order, status in (("stop", "stopped"), ("start", "running"), ("reboot", "running")):
            getattr(servers, order)(server["uuid"])
            self.settled(server["uuid"], status)
        self.refused("another flavor while it runs", 400, "flavor", servers.update, server["uuid"], flavor="flex-4-4")
        servers.update(server["uuid"], name="Ein Näme mit Leerzeichen")
        servers.update(server["uuid"], tags={})
        read = servers.get_by_uuid(server["uuid"])
        self.equal("changed", (read["name"], read["tags"]), ("Ein Näme mit Leerzeichen", {}))
        self.refused("its network", 400, "attached", self.cloud.network.delete, network["uuid"])
        self.cloud.server_group.delete(group["uuid"])
        return server

    def floating_ips(self, server):
        floating = self.cloud.floating_ip
        for version in (4, 6):
            made = self.made(floating, ip_version=version, server_uuid=server["uuid"], tags={"tour": str(version)})
            address = made["network"].split("/")[0]
            self.equal("its server", made["server"]["uuid"], server["uuid"])
            hops = [a["address"] for a in server["interfaces"][0]["addresses"] if a["version"] == version]
            self.equal("its next hop", [made["next_hop"]], hops)
            floating.update(address, reverse_ptr="a.example")
            self.equal("its name", floating.get_by_uuid(address)["reverse_ptr"], "a.example")
            self.equal("found by tag", len(floating.get_all(filter_tag=f"tour={version}")), 1)
            floating.delete(address)
            self.refused("a deleted one", 404, "Not found.", floating.get_by_uuid, address)
        made = self.made(floating, ip_version=6, prefix_length=56, scope="global")
        self.equal("a global network", (made["region"], made["server"], made["network"][-3:]), (None, None, "/56"))
        floating.delete(made["network"].split("/")[0])

    def strangers(self):
        nobody = Cloudscale(api_token="nobody")
        self.refused("a wrong token", 401, "token", nobody.server.get_all)
        looking = Cloudscale(api_token="only-look")
        self.equal("looking", looking.server.get_all(), self.cloud.server.get_all())
        self.refused("only looking", 403, "permission", looking.network.create, name="x")


class CommandLine(Judge):
    """The command line, as people call it."""

    def __init__(self, program):
        super().__init__("cloudscale-cli")
        self.program = program

    def run(self, *arguments):
        command = [self.program, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        return done.returncode, done.stdout + done.stderr

    def shows(self, text, *arguments):
        code, output = self.run(*arguments)
        squeezed = " ".join(output.split())
        self.check(code == 0 and text in squeezed, " ".join(arguments), f"{code} {output}")

    def refuses(self, text, *arguments):
        code, output = self.run(*arguments)
        self.check(code != 0 and text in output, " ".join(arguments), f"{code} {output}")

    def json(self, *arguments):
        code, output = self.run("--output", "json", *arguments)
        self.check(code == 0, " ".join(arguments), output)
        return json.loads(output) if code == 0 and output.strip() else []

    def tour(self):
        self.shows("rma rma1", "region", "list")
        self.shows("Flex-4-2 2 4 flex-4-2 rma1, lpg1", "flavor", "list")
        network = self.json("network", "create", "--name", "cli", "--no-auto-create-ipv4-subnet", "--tag", "tour=cli")
        subnet = self.json("subnet", "create", "--cidr", "192.168.9.0/24", "--network-uuid", network["uuid"])
        self.equal("its network", subnet["network"]["uuid"], network["uuid"])
        self.shows("renamed", "network", "update", "cli", "--name", "renamed")
        self.shows("tour=cli", "network", "list", "--filter-tag", "tour=cli")
        interface = ("--interface", "network=public", "--interface", f"network={network['uuid']}")
        create = ("server", "create", "--name", "cli-{counter}", "--flavor", "flex-4-2", "--image", "debian-12")
        servers = self.json(*create, *interface, "--count", "2", "--wait", "--tag", "tour=cli")
        self.equal("their names", [s["name"] for s in servers], ["cli-1", "cli-2"])
        self.equal("they run", [s["status"] for s in servers], ["running", "running"])
        self.equal("their interfaces", [len(s["interfaces"]) for s in servers], [2, 2])
        self.shows("cli-1 stopped flex-4-2 rma1 tour=cli", "server", "stop", "cli-1", "--wait")
        self.shows("flex-4-4", "server", "update", "cli-1", "--flavor", "flex-4-4")
        self.shows("cli-1 running", "server", "start", "cli-1", "--wait")
        self.refuses("flavor can only be changed", "server", "update", "cli-1", "--flavor", "flex-4-2")
        self.refuses("No resource found", "server", "show", "cli-9")
        floating = self.json("floating-ip", "create", "--server", servers[0]["uuid"], "--tag", "tour=cli")
        self.equal("it points to the server", floating["server"]["uuid"], servers[0]["uuid"])
        address = floating["network"].split("/")[0]
        self.shows("tour=cli", "floating-ip", "update", address, "--server", servers[1]["uuid"])
        moved = self.json("floating-ip", "show", address)
        self.equal("it points to the other", moved["server"]["uuid"], servers[1]["uuid"])
        self.shows("deleted!", "floating-ip", "delete", address, "--force")
        self.shows("deleted!", "server", "list", "--filter-tag", "tour=cli", "--delete", "--force")
        self.shows("deleted!", "subnet", "delete", subnet["uuid"], "--force")
        self.shows("deleted!", "network", "delete", "renamed", "--force")
        self.equal("nothing is left", self.json("server", "list", "--filter-tag", "tour"), [])


def main():
    judges = [Sdk(), CommandLine(sys.argv[1])]
    for judge in judges:
        try:
            judge.tour()
        except Exception as error:  # pylint: disable=broad-except
            traceback.print_exc()
            judge.check(False, "the tour came to an early end", repr(error))
    # Every judge speaks, also when an earlier one was not content.
    return 0 if all([judge.verdict() for judge in judges]) else 1


if __name__ == "__main__":
    sys.exit(main())
