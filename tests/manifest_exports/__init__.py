"""An environment is exported as plain manifests of Kubernetes."""
