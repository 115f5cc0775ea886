// A client and a receiver written from the documented interface alone. The JDK only; it has no JSON parser, so this file brings a small one.
import com.sun.net.httpserver.HttpServer;
import java.math.BigDecimal;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

public class Client {
    static final String RETURN_URL = "https://shop.example/thanks";
    static final HttpClient HTTP = HttpClient.newHttpClient();

    record Reply(int status, HttpResponse<String> raw, Map<String, Object> json) {
        String text(String field) {
            return (String) json.get(field);
        }

        int header(String name) {
            return Integer.parseInt(raw.headers().firstValue(name).orElse("-1"));
        }
    }

    @SuppressWarnings("unchecked")
    static Reply call(String base, String key, String method, String path, Object body) throws Exception {
        var request = HttpRequest.newBuilder(URI.create(base + path)).header("Authorization", "Bearer " + key);
        if (body == null) {
            request.method(method, HttpRequest.BodyPublishers.noBody());
        } else {
            request.header("Content-Type", "application/json").method(method, HttpRequest.BodyPublishers.ofString(write(body)));
        }
        var reply = HTTP.send(request.build(), HttpResponse.BodyHandlers.ofString());
        return new Reply(reply.statusCode(), reply, (Map<String, Object>) new Reader(reply.body()).value());
    }

    static void check(String step, boolean holds, Reply reply) {
        if (!holds) {
            System.out.println("wrong " + step + " " + reply.status() + " " + reply.raw().body());
            System.exit(1);
        }
        System.out.println("ok " + step);
    }

    static Map<String, Object> object(Object... pairs) {
        var map = new LinkedHashMap<String, Object>();
        for (int i = 0; i < pairs.length; i += 2) map.put((String) pairs[i], pairs[i + 1]);
        return map;
    }

    @SuppressWarnings("unchecked")
    static void run(String base, String secret, String open) throws Exception {
        var simple = call(base, open, "POST", "/api/payment/create/simple", object("amount_usd", new BigDecimal("1E+2"), "return_url", RETURN_URL));
        check("simple", simple.status() == 201 && simple.json().get("success").equals(true) && simple.text("amount_usd").equals("100.00")
            && simple.text("status").equals("pending") && URI.create(simple.text("payment_url")).getQuery().contains("id=" + simple.text("transaction_id")), simple);
        check("limits", simple.header("X-RateLimit-Limit") > simple.header("X-RateLimit-Remaining") && simple.header("X-RateLimit-Reset") > 0, simple);
        var items = List.of(
            object("product_id", "mug", "name", "Mug", "quantity", 3, "unit_price", new BigDecimal("4.350")),
            object("product_id", "pin", "name", "Pin", "quantity", 1, "unit_price", 0.95));
        var advanced = call(base, secret, "POST", "/api/payment/create/advanced",
            object("return_url", RETURN_URL, "items", items, "tax", BigDecimal.ZERO, "invoice_id", null));
        check("advanced", advanced.status() == 201 && advanced.text("amount_usd").equals("14.00")
            && new BigDecimal("2").compareTo((BigDecimal) advanced.json().get("items_count")) == 0, advanced);
        var legacy = call(base, secret, "POST", "/payments", object("amount", "0.5", "description", null, "redirect_url", RETURN_URL));
        check("legacy", legacy.status() == 201 && legacy.text("amount").equals("0.50000000") && !legacy.text("payment_address").isEmpty(), legacy);
        var coin = call(base, secret, "POST", "/v1/transactions/create", object("crypto", "BTC", "amount", 25.0, "currency_fiat", "USD"));
        check("transaction", coin.status() == 201 && coin.text("payment_url").startsWith("http"), coin);
        HTTP.send(HttpRequest.newBuilder(URI.create(coin.text("payment_url"))).build(), HttpResponse.BodyHandlers.discarding());
        var detail = call(base, secret, "GET", "/api/payment/" + coin.text("transaction_id"), null);
        for (int i = 0; i < 600 && !detail.text("status").equals("completed"); i++) {
            Thread.sleep(100);
            detail = call(base, secret, "GET", "/api/payment/" + coin.text("transaction_id"), null);
        }
        check("completed", detail.text("status").equals("completed") && detail.text("currency").equals("BTC") && detail.text("transaction_hash") != null
            && detail.text("amount_received").equals(detail.text("amount")), detail);
        var found = new ArrayList<String>();
        Reply page;
        do {
            page = call(base, secret, "GET", "/api/payments?limit=2" + (found.isEmpty() ? "" : "&starting_after=" + found.get(found.size() - 1)), null);
            for (var row : (List<Map<String, Object>>) page.json().get("data")) found.add((String) row.get("transaction_id"));
        } while (page.json().get("has_more").equals(true));
        check("list", ((BigDecimal) page.json().get("total_count")).intValue() == found.size() && new HashSet<>(found).size() == found.size()
            && found.contains(simple.text("transaction_id")), page);
        var wrong = call(base, secret, "POST", "/api/payment/create/simple", object("amount_usd", 0, "return_url", RETURN_URL));
        var error = (Map<String, Object>) wrong.json().get("error");
        check("invalid", wrong.status() == 400 && error.get("type").equals("invalid_request") && error.get("param").equals("amount_usd"), wrong);
        check("unauthorized", call(base, "sk_test_nobody", "GET", "/api/payments", null).status() == 401, wrong);
        System.out.println("paid " + coin.text("transaction_id"));
    }

    @SuppressWarnings("unchecked")
    static void receive(int port, String signingSecret) throws Exception {
        Set<String> seen = new HashSet<>();
        var server = HttpServer.create(new InetSocketAddress("127.0.0.1", port), 0);
        server.createContext("/", exchange -> {
            byte[] body = exchange.getRequestBody().readAllBytes();
            try {
                var mac = Mac.getInstance("HmacSHA256");
                mac.init(new SecretKeySpec(signingSecret.getBytes(StandardCharsets.UTF_8), "HmacSHA256"));
                var expected = HexFormat.of().formatHex(mac.doFinal(body));
                var signature = exchange.getRequestHeaders().getFirst("X-Service-Signature");
                boolean genuine = signature != null && MessageDigest.isEqual(expected.getBytes(), signature.getBytes());
                exchange.sendResponseHeaders(genuine ? 200 : 400, -1);
                if (!genuine) return;
                var event = (Map<String, Object>) new Reader(new String(body, StandardCharsets.UTF_8)).value();
                var data = (Map<String, Object>) event.get("data");
                if (seen.add((String) event.get("id"))) System.out.println("event " + event.get("type") + " " + data.get("id") + " " + data.get("status"));
            } catch (java.security.GeneralSecurityException unsupported) {
                exchange.sendResponseHeaders(500, -1);
            } finally {
                exchange.close();
            }
        });
        server.start();
        System.out.println("listening");
    }

    public static void main(String[] args) throws Exception {
        if (args[0].equals("run")) run(args[1], args[2], args[3]);
        else receive(Integer.parseInt(args[1]), args[2]);
    }

    static String write(Object value) {
        if (value instanceof Map<?, ?> map) {
            var parts = new ArrayList<String>();
            map.forEach((key, item) -> parts.add("\"" + key + "\":" + write(item)));
            return "{" + String.join(",", parts) + "}";
        }
        if (value instanceof List<?> list) return "[" + String.join(",", list.stream().map(Client::write).toList()) + "]";
        return value instanceof String text ? "\"" + text + "\"" : String.valueOf(value);
    }

    /** Reads JSON: objects as maps, numbers as BigDecimal. */
    static class Reader {
        final String text;
        int at = 0;

        Reader(String text) {
            this.text = text;
        }

        char next() {
            while (Character.isWhitespace(text.charAt(at))) at++;
            return text.charAt(at);
        }

        Object value() {
            switch (next()) {
                case '{': {
                    var map = new LinkedHashMap<String, Object>();
                    at++;
                    while (next() != '}') {
                        String key = (String) value();
                        next();
                        at++;
                        map.put(key, value());
                        if (next() == ',') at++;
                    }
                    at++;
                    return map;
                }
                case '[': {
                    var list = new ArrayList<Object>();
                    at++;
                    while (next() != ']') {
                        list.add(value());
                        if (next() == ',') at++;
                    }
                    at++;
                    return list;
                }
                case '"': {
                    var out = new StringBuilder();
                    for (at++; text.charAt(at) != '"'; at++) {
                        char c = text.charAt(at);
                        if (c != '\\') {
                            out.append(c);
                            continue;
                        }
                        char escaped = text.charAt(++at);
                        if (escaped == 'u') {
                            out.append((char) Integer.parseInt(text.substring(at + 1, at + 5), 16));
                            at += 4;
                        } else {
                            out.append(escaped == 'n' ? '\n' : escaped == 't' ? '\t' : escaped == 'r' ? '\r' : escaped);
                        }
                    }
                    at++;
                    return out.toString();
                }
                default: {
                    int start = at;
                    while (at < text.length() && ",]} \n".indexOf(text.charAt(at)) < 0) at++;
                    String word = text.substring(start, at);
                    return word.equals("null") ? null : word.equals("true") || word.equals("false") ? (Object) word.equals("true") : new BigDecimal(word);
                }
            }
        }
    }
}
