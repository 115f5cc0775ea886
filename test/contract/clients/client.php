<?php
// A client and a receiver written from the documented interface alone. The receiver runs under PHP's own web server.
declare(strict_types=1);

const RETURN_URL = 'https://shop.example/thanks';

function call(string $base, string $key, string $method, string $path, ?array $body = null): array
{
    $headers = ["Authorization: Bearer $key"];
    if ($body !== null) {
        $headers[] = 'Content-Type: application/json';
    }
    $context = stream_context_create(['http' => [
        'method' => $method,
        'header' => $headers,
        'content' => $body === null ? '' : json_encode($body),
        'ignore_errors' => true,
    ]]);
    $text = file_get_contents($base . $path, false, $context);
    $fields = [];
    foreach ($http_response_header as $line) {
        if (str_contains($line, ': ')) {
            [$name, $value] = explode(': ', $line, 2);
            $fields[$name] = $value;
        }
    }
    return [(int) explode(' ', $http_response_header[0])[1], $fields, json_decode($text, true)];
}

function check(string $step, bool $holds, mixed $reply): void
{
    if (!$holds) {
        echo "wrong $step " . json_encode($reply) . "\n";
        exit(1);
    }
    echo "ok $step\n";
}

function run(string $base, string $secret, string $public): void
{
    [$status, $headers, $simple] = call($base, $public, 'POST', '/api/payment/create/simple', ['amount_usd' => 1.1 * 3, 'return_url' => RETURN_URL]);
    parse_str((string) parse_url($simple['payment_url'], PHP_URL_QUERY), $query);
    check('simple', $status === 201 && $simple['success'] === true && $simple['amount_usd'] === '3.30' && $simple['status'] === 'pending'
        && $query['id'] === $simple['transaction_id'], $simple);
    check('limits', (int) $headers['X-RateLimit-Limit'] > (int) $headers['X-RateLimit-Remaining'] && (int) $headers['X-RateLimit-Reset'] > 0, $headers);
    $items = [
        ['product_id' => 'mug', 'name' => 'Mug', 'quantity' => 3, 'unit_price' => 4.35],
        ['product_id' => 'pin', 'name' => 'Pin', 'quantity' => 1, 'unit_price' => 0.95],
    ];
    [$status, , $advanced] = call($base, $secret, 'POST', '/api/payment/create/advanced', ['return_url' => RETURN_URL, 'items' => $items, 'tax' => 0, 'invoice_id' => null]);
    check('advanced', $status === 201 && $advanced['amount_usd'] === '14.00' && $advanced['items_count'] === 2, $advanced);
    [$status, , $legacy] = call($base, $secret, 'POST', '/payments', ['amount' => '0.5', 'description' => null, 'redirect_url' => RETURN_URL]);
    check('legacy', $status === 201 && $legacy['amount'] === '0.50000000' && $legacy['payment_address'] !== '', $legacy);
    [$status, , $coin] = call($base, $secret, 'POST', '/v1/transactions/create', ['crypto' => 'BTC', 'amount' => 25.0, 'currency_fiat' => 'USD']);
    check('transaction', $status === 201 && str_starts_with($coin['payment_url'], 'http'), $coin);
    file_get_contents($coin['payment_url']);
    for ($i = 0; $i < 600; $i++) {
        [, , $detail] = call($base, $secret, 'GET', '/api/payment/' . $coin['transaction_id']);
        if ($detail['status'] === 'completed') {
            break;
        }
        usleep(100_000);
    }
    check('completed', $detail['status'] === 'completed' && $detail['currency'] === 'BTC' && $detail['transaction_hash'] !== null
        && $detail['amount_received'] === $detail['amount'], $detail);
    $found = [];
    do {
        $query = $found === [] ? ['limit' => 2] : ['limit' => 2, 'starting_after' => end($found)];
        [, , $page] = call($base, $secret, 'GET', '/api/payments?' . http_build_query($query));
        $found = [...$found, ...array_column($page['data'], 'transaction_id')];
    } while ($page['has_more']);
    check('list', $page['total_count'] === count($found) && count(array_unique($found)) === count($found) && in_array($simple['transaction_id'], $found, true), $found);
    [$status, , $wrong] = call($base, $secret, 'POST', '/api/payment/create/simple', ['amount_usd' => 0, 'return_url' => RETURN_URL]);
    check('invalid', $status === 400 && $wrong['error']['type'] === 'invalid_request' && $wrong['error']['param'] === 'amount_usd', $wrong);
    [$status, , $denied] = call($base, 'sk_test_nobody', 'GET', '/api/payments');
    check('unauthorized', $status === 401 && $denied['error']['message'] !== '', $denied);
    echo 'paid ' . $coin['transaction_id'] . "\n";
}

function receive(): void
{
    $body = file_get_contents('php://input');
    $signature = getallheaders()['X-Service-Signature'] ?? '';
    if (!hash_equals(hash_hmac('sha256', $body, getenv('SIGNING_SECRET')), $signature)) {
        http_response_code(400);
        return;
    }
    $event = json_decode($body, true);
    // One process for each request: what was seen is remembered in a file.
    $file = getenv('SEEN_FILE');
    $seen = file_exists($file) ? file($file, FILE_IGNORE_NEW_LINES) : [];
    if (!in_array($event['id'], $seen, true)) {
        file_put_contents($file, $event['id'] . "\n", FILE_APPEND);
        file_put_contents('php://stdout', "event {$event['type']} {$event['data']['id']} {$event['data']['status']}\n");
    }
}

if (PHP_SAPI === 'cli-server') {
    receive();
} else {
    run($argv[2], $argv[3], $argv[4]);
}
