# A client and a receiver written from the documented interface alone. Ruby's standard library only.
require 'json'
require 'net/http'
require 'openssl'
require 'set'
require 'socket'

RETURN_URL = 'https://shop.example/thanks'

def call(base, key, method, path, body = nil)
  uri = URI(base + path)
  request = Net::HTTP.const_get(method.capitalize).new(uri)
  request['Authorization'] = "Bearer #{key}"
  if body
    request['Content-Type'] = 'application/json'
    request.body = JSON.generate(body)
  end
  reply = Net::HTTP.start(uri.host, uri.port) { |http| http.request(request) }
  [reply.code.to_i, reply, JSON.parse(reply.body)]
end

def check(step, holds, reply)
  abort "wrong #{step} #{reply}" unless holds
  puts "ok #{step}"
end

def run(base, secret, public_key)
  status, headers, simple = call(base, public_key, 'post', '/api/payment/create/simple', { amount_usd: 1.1 * 3, return_url: RETURN_URL })
  id = URI.decode_www_form(URI(simple['payment_url']).query).to_h['id']
  check 'simple', status == 201 && simple['success'] == true && simple['amount_usd'] == '3.30' && simple['status'] == 'pending' &&
                  id == simple['transaction_id'], simple
  check 'limits', Integer(headers['X-RateLimit-Limit']) > Integer(headers['X-RateLimit-Remaining']) && Integer(headers['X-RateLimit-Reset']).positive?,
        headers.to_hash
  items = [{ product_id: 'mug', name: 'Mug', quantity: 3, unit_price: 4.35 }, { product_id: 'pin', name: 'Pin', quantity: 1, unit_price: 0.95 }]
  status, _, advanced = call(base, secret, 'post', '/api/payment/create/advanced', { return_url: RETURN_URL, items: items, tax: 0, invoice_id: nil })
  check 'advanced', status == 201 && advanced['amount_usd'] == '14.00' && advanced['items_count'] == 2, advanced
  status, _, legacy = call(base, secret, 'post', '/payments', { amount: '0.5', description: nil, redirect_url: RETURN_URL })
  check 'legacy', status == 201 && legacy['amount'] == '0.50000000' && legacy['payment_address'] != '', legacy
  status, _, coin = call(base, secret, 'post', '/v1/transactions/create', { crypto: 'BTC', amount: 25.0, currency_fiat: 'USD' })
  check 'transaction', status == 201 && coin['payment_url'].start_with?('http'), coin
  Net::HTTP.get(URI(coin['payment_url']))
  detail = nil
  600.times do
    _, _, detail = call(base, secret, 'get', "/api/payment/#{coin['transaction_id']}")
    break if detail['status'] == 'completed'

    sleep 0.1
  end
  check 'completed', detail['status'] == 'completed' && detail['currency'] == 'BTC' && !detail['transaction_hash'].nil? &&
                     detail['amount_received'] == detail['amount'], detail
  found = []
  page = { 'has_more' => true }
  while page['has_more']
    query = found.empty? ? { limit: 2 } : { limit: 2, starting_after: found.last }
    _, _, page = call(base, secret, 'get', "/api/payments?#{URI.encode_www_form(query)}")
    found += page['data'].map { |row| row['transaction_id'] }
  end
  check 'list', page['total_count'] == found.size && found.uniq == found && found.include?(simple['transaction_id']), found
  status, _, wrong = call(base, secret, 'post', '/api/payment/create/simple', { amount_usd: 0, return_url: RETURN_URL })
  check 'invalid', status == 400 && wrong['error']['type'] == 'invalid_request' && wrong['error']['param'] == 'amount_usd', wrong
  status, _, denied = call(base, 'sk_test_nobody', 'get', '/api/payments')
  check 'unauthorized', status == 401 && denied['error']['message'] != '', denied
  puts "paid #{coin['transaction_id']}"
end

def receive(port, signing_secret)
  seen = Set.new
  server = TCPServer.new('127.0.0.1', port.to_i)
  puts 'listening'
  loop do
    socket = server.accept
    head = {}
    while (line = socket.gets) && line != "\r\n"
      name, value = line.chomp.split(': ', 2)
      head[name.downcase] = value if value
    end
    body = socket.read(head.fetch('content-length', '0').to_i)
    expected = OpenSSL::HMAC.hexdigest('SHA256', signing_secret, body)
    genuine = OpenSSL.secure_compare(expected, head.fetch('x-service-signature', ''))
    socket.write("HTTP/1.1 #{genuine ? '200 OK' : '400 Bad Request'}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
    socket.close
    next unless genuine

    event = JSON.parse(body)
    puts "event #{event['type']} #{event['data']['id']} #{event['data']['status']}" if seen.add?(event['id'])
  end
end

$stdout.sync = true
ARGV[0] == 'run' ? run(*ARGV[1..]) : receive(*ARGV[1..])
