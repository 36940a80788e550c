"""The families of Terraform services: the shapes of requests and responses, without their behaviour."""
