"""A client and a receiver written from the documented interface alone. Python's standard library only."""
import hashlib
import hmac
import json
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer

RETURN_URL = "https://shop.example/thanks"


def call(base, key, method, path, body=None):
    request = urllib.request.Request(base + path, method=method)
    request.add_header("Authorization", "Bearer " + key)
    if body is not None:
        request.add_header("Content-Type", "application/json")
        request.data = json.dumps(body).encode()
    try:
        with urllib.request.urlopen(request) as reply:
            return reply.status, reply.headers, json.load(reply)
    except urllib.error.HTTPError as error:
        return error.code, error.headers, json.load(error)


def check(step, holds, reply):
    if not holds:
        print("wrong", step, reply)
        sys.exit(1)
    print("ok", step, flush=True)


def run(base, secret, public):
    status, headers, simple = call(base, public, "POST", "/api/payment/create/simple", {"amount_usd": 1.1 * 3, "return_url": RETURN_URL})
    page = urllib.parse.parse_qs(urllib.parse.urlparse(simple["payment_url"]).query)
    check("simple", status == 201 and simple["success"] is True and simple["amount_usd"] == "3.30" and simple["status"] == "pending"
          and page["id"] == [simple["transaction_id"]], simple)
    check("limits", int(headers["X-RateLimit-Limit"]) > int(headers["X-RateLimit-Remaining"]) and int(headers["X-RateLimit-Reset"]) > 0, dict(headers))
    items = [{"product_id": "mug", "name": "Mug", "quantity": 3, "unit_price": 4.35}, {"product_id": "pin", "name": "Pin", "quantity": 1, "unit_price": 0.95}]
    order = {"return_url": RETURN_URL, "items": items, "tax": 0, "invoice_id": None}
    status, _, advanced = call(base, secret, "POST", "/api/payment/create/advanced", order)
    check("advanced", status == 201 and advanced["amount_usd"] == "14.00" and advanced["items_count"] == 2, advanced)
    status, _, legacy = call(base, secret, "POST", "/payments", {"amount": "0.5", "description": None, "redirect_url": RETURN_URL})
    check("legacy", status == 201 and legacy["amount"] == "0.50000000" and legacy["payment_address"] != "", legacy)
    status, _, coin = call(base, secret, "POST", "/v1/transactions/create", {"crypto": "BTC", "amount": 25.0, "currency_fiat": "USD"})
    check("transaction", status == 201 and coin["payment_url"].startswith("http"), coin)
    urllib.request.urlopen(coin["payment_url"]).read()
    for _ in range(600):
        status, _, detail = call(base, secret, "GET", "/api/payment/" + coin["transaction_id"])
        if detail["status"] == "completed":
            break
        time.sleep(0.1)
    check("completed", detail["status"] == "completed" and detail["currency"] == "BTC" and detail["transaction_hash"] is not None
          and detail["amount_received"] == detail["amount"], detail)
    found, after = [], None
    while True:
        query = {"limit": 2} if after is None else {"limit": 2, "starting_after": after}
        status, _, page = call(base, secret, "GET", "/api/payments?" + urllib.parse.urlencode(query))
        found += [row["transaction_id"] for row in page["data"]]
        if not page["has_more"]:
            break
        after = found[-1]
    check("list", status == 200 and page["total_count"] == len(found) == len(set(found)) and simple["transaction_id"] in found, found)
    status, _, wrong = call(base, secret, "POST", "/api/payment/create/simple", {"amount_usd": 0, "return_url": RETURN_URL})
    check("invalid", status == 400 and wrong["error"]["type"] == "invalid_request" and wrong["error"]["param"] == "amount_usd", wrong)
    status, _, denied = call(base, "sk_test_nobody", "GET", "/api/payments")
    check("unauthorized", status == 401 and denied["error"]["message"] != "", denied)
    print("paid", coin["transaction_id"])


def receive(port, signing_secret):
    seen = set()

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            expected = hmac.new(signing_secret.encode(), body, hashlib.sha256).hexdigest()
            genuine = hmac.compare_digest(expected, self.headers.get("X-Service-Signature", ""))
            self.send_response(200 if genuine else 400)
            self.end_headers()
            if not genuine:
                return
            event = json.loads(body)
            if event["id"] not in seen:
                seen.add(event["id"])
                print("event", event["type"], event["data"]["id"], event["data"]["status"], flush=True)

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", int(port)), Receiver)
    print("listening", flush=True)
    server.serve_forever()


{"run": run, "receive": receive}[sys.argv[1]](*sys.argv[2:])
