"""Git servers beyond git itself: what they send to webhooks, and their APIs. GitHub, GitLab, Gitea with
Forgejo, and Bitbucket."""
