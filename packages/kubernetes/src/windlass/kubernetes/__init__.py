"""The Kubernetes engine: runs generations of services as Deployments of a cluster.

Start here: `engine` (the verbs), `manifests` (what a workload is in the cluster), and `api` (the client).
"""
