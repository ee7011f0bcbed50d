"""A small HTTP/1.1 server for large bodies: heads are h11's, bodies are received where they are read.

Why not a server from a library: a full filter request is 37 MB, and the servers at hand copy a body two or three times
before they hand it over, which alone costs more CPU than receiving, reading and answering it takes here
(`benchmarks/servers.py` prints both).
"""

from bayplan.cluster.http.messages import Handler, HttpError, Request, Response, json_error
from bayplan.cluster.http.server import HttpServer, Limits
from bayplan.cluster.http.tls import TlsFiles

__all__ = ["Handler", "HttpError", "HttpServer", "Limits", "Request", "Response", "TlsFiles", "json_error"]
