"""A real Kubernetes on one machine, for tests and for people.

Nothing here imitates: etcd, the API server, the controllers, the scheduler, kubelets with containerd, kube-proxy, CoreDNS
and KubeRay are the programs themselves, built from pinned sources. `testbed.cluster.Cluster` is the door in;
docs/testbed.md shows what can be done with it. `python -m testbed` is the same for people.
"""
