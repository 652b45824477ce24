"""The local cloud: the deployment's real components on one machine, without Docker and without an account."""
