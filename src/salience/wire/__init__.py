"""The wire format that server and client share: verbs, requests, responses and errors."""
