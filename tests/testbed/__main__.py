"""`python -m testbed`: the test bed for people. `make cluster-up` and `make cluster-down` call this."""

import argparse
import signal
import sys
import time

from testbed import build, cache, images, needs, run
from testbed.local import LocalCluster

PROGRAMS = {program.name: program for program in (build.PAUSE, build.KUBE, build.KUBERAY, build.KWOK, build.KUEUE)}


def up(arguments: argparse.Namespace) -> None:
    for found in run.existing():
        if found.name == arguments.name and found.facts.get("left_up") and found.alive:
            print(f"The cluster {found.name} is up already; `make cluster-down` ends it.")
            tell(LocalCluster.attach(found.name))
            return
    began = time.monotonic()
    cluster = LocalCluster.start(
        name=arguments.name, nodes=arguments.nodes, fake_nodes=arguments.fake_nodes, kueue=arguments.kueue
    )
    cluster.leave_up()
    print(f"Ready in {cache.spell(time.monotonic() - began)}.")
    tell(cluster)


def tell(cluster: LocalCluster) -> None:
    node = "  make cluster-node NODE=node-1 DO=cut-off   # or restore, kill, start\n"
    hint = f"  ls {cluster.run.folder}/*/*.log   # what the components say\n" + (node if cluster.nodes else "")
    print(f"""
  export KUBECONFIG={cluster.kubeconfig}
  export PATH={build.built(build.KUBE).command("kubectl").parent}:$PATH   # for kubectl

Try next:
  kubectl get nodes,rayclusters -A
  make test-cluster                # the tests of this repository, on this cluster
{hint}  make cluster-down""")


def down(arguments: argparse.Namespace) -> None:
    found = [one for one in run.existing() if one.name == arguments.name]
    for one in found:
        if not one.held():
            sys.exit(f"The cluster {one.name} belongs to a process that is still running; end that one first.")
        run.finish(one)
        print(f"The cluster {one.name} is gone.")
    swept = run.sweep()
    for name in swept:
        print(f"Removed the cluster {name}, whose owner is gone.")
    if not found and not swept:
        print("There is no cluster up.")


def main() -> None:
    parser = argparse.ArgumentParser(prog="testbed", description="A real Kubernetes on this machine.")
    commands = parser.add_subparsers(required=True)

    starting = commands.add_parser("up", help="start a cluster and leave it up")
    starting.add_argument("--nodes", type=int, default=0, help="real nodes (root on Linux)")
    starting.add_argument("--fake-nodes", type=int, default=0, help="KWOK nodes of 8 GPUs each")
    starting.add_argument("--kueue", action="store_true", help="install Kueue with a GPU quota (needs a real node)")
    starting.set_defaults(run=up)
    ending = commands.add_parser("down", help="end the cluster, and remove what killed processes left behind")
    ending.set_defaults(run=down)
    for command in (starting, ending):
        command.add_argument("--name", default="dev", help="which cluster, if you want several")

    building = commands.add_parser("build", help="compile the programs; without names all but Kueue, and the images")
    building.add_argument("programs", nargs="*", metavar="program", help=f"one of {', '.join(PROGRAMS)}")
    building.set_defaults(run=compile_programs)

    node = commands.add_parser("node", help="do something to a real node of a cluster that is up")
    node.add_argument("node", help="as in node-1")
    node.add_argument("verb", choices=["cut-off", "restore", "kill", "start"])
    node.add_argument("--name", default="dev", help="of the cluster")
    node.set_defaults(run=handle_node)

    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # being told to end is no reason to leave a mess
    try:
        arguments.run(arguments)
    except (RuntimeError, LookupError) as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit("Interrupted; nothing is left behind.")


def compile_programs(arguments: argparse.Namespace) -> None:
    if unknown := set(arguments.programs) - set(PROGRAMS):
        raise LookupError(f"There is no program {', '.join(unknown)}; there are {', '.join(PROGRAMS)}.")
    for name in arguments.programs or ("pause", "kube", "kuberay", "kwok"):
        print(build.built(PROGRAMS[name]).folder)
    if arguments.programs:
        return
    if reason := needs.reason_against(nodes=True):
        print(f"No images: {reason}.")
        return
    needs.require(nodes=True)
    for image in (images.pause(), images.ray_pods().image):
        print(image.archive)


def handle_node(arguments: argparse.Namespace) -> None:
    cluster = LocalCluster.attach(arguments.name)
    if arguments.node not in cluster.nodes:
        raise LookupError(
            f"The cluster {arguments.name} has no node {arguments.node}, only {', '.join(cluster.nodes)}."
        )
    node = cluster.nodes[arguments.node]
    match arguments.verb:
        case "cut-off":
            node.cut_off()
        case "restore":
            node.restore()
        case "kill":
            node.kill()
        case "start":
            node.start(cluster.api)


if __name__ == "__main__":
    main()
