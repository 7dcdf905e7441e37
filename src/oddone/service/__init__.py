"""The HTTP service and its page: pictures in, verdicts out.

`oddone serve` runs it. FastAPI, uvicorn and prometheus-client (`oddone[service]`) are needed by
`app`, `server` and `measurements` alone; what `oddone calibrate --from-service` reads is not.
"""
