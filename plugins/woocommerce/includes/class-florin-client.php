<?php
/**
 * Requests to the Florin server.
 *
 * @package Florin
 */

defined( 'ABSPATH' ) || exit;

/** What the server answered when it refused a request, or why it could not be reached. */
final class Florin_Failure extends RuntimeException {
	/** @var int HTTP status; 0 if there was no answer. */
	public $status;
	/** @var string Code of the error, such as "plan_required"; empty if the server gave none. */
	public $error_code;
	/** @var string The parameter that was refused; empty if none was. */
	public $param;

	/**
	 * @param string $message    For people.
	 * @param int    $status     HTTP status, or 0.
	 * @param string $error_code Code of the error.
	 * @param string $param      The parameter that was refused.
	 */
	public function __construct( $message, $status = 0, $error_code = '', $param = '' ) {
		parent::__construct( $message );
		$this->status     = $status;
		$this->error_code = $error_code;
		$this->param      = $param;
	}
}

final class Florin_Client {
	/** A customer waits for the answer. */
	const TIMEOUT_SECONDS = 15;
	/** What the webhook endpoint of a shop receives. */
	const EVENTS = array( '*', 'payment.updated', 'refund.sent', 'refund.confirmed', 'refund.failed', 'refund.canceled' );

	/** @var string */
	private $url;
	/** @var string */
	private $key;

	/**
	 * @param string $url Address of the server, without a slash at the end.
	 * @param string $key Secret API key.
	 */
	public function __construct( $url, $key ) {
		$this->url = rtrim( $url, '/' );
		$this->key = $key;
	}

	/**
	 * Creates a payment.
	 *
	 * @param array  $payment         As the API reference describes it.
	 * @param string $idempotency_key The same key never creates a second payment.
	 * @return array
	 * @throws Florin_Failure If the server refuses or does not answer.
	 */
	public function create_payment( array $payment, $idempotency_key ) {
		return $this->send( 'POST', '/api/payment/create/simple', $payment, array( 'Idempotency-Key' => $idempotency_key ) );
	}

	/**
	 * Reads a payment.
	 *
	 * @param string $id      Payment ID.
	 * @param int    $seconds How long to wait for the answer.
	 * @return array
	 * @throws Florin_Failure If the server refuses or does not answer.
	 */
	public function payment( $id, $seconds = self::TIMEOUT_SECONDS ) {
		return $this->send( 'GET', '/api/payment/' . rawurlencode( $id ), null, array(), $seconds );
	}

	/**
	 * Tells Florin that the shop has no order for a payment, or that it has one again.
	 *
	 * @param string      $id   Payment ID.
	 * @param string      $shop The shop that made it, as its metadata says.
	 * @param string|null $text For the merchant; null if there is an order.
	 * @return array
	 * @throws Florin_Failure If the server refuses or does not answer.
	 */
	public function set_order_missing( $id, $shop, $text ) {
		return $this->send(
			'POST',
			'/v1/payments/' . rawurlencode( $id ),
			array(
				'metadata' => array( 'order_missing' => $text ),
				'shop'     => $shop,
			)
		);
	}

	/**
	 * A page of the payments that a shop made, newest first.
	 *
	 * @param string $shop  As the metadata of the payments says it.
	 * @param string $since Not those that are older.
	 * @param string $after Last payment of the page before, or an empty string.
	 * @return array
	 * @throws Florin_Failure If the server refuses or does not answer.
	 */
	public function payments_of( $shop, $since, $after ) {
		$which = array(
			'limit'         => 100,
			'metadata'      => array( 'shop' => $shop ),
			'created_after' => $since,
		);
		return $this->send( 'GET', '/api/payments?' . http_build_query( $which + ( '' === $after ? array() : array( 'starting_after' => $after ) ) ) );
	}

	/**
	 * Cancels a payment of a shop, unless the network has reported any money for it.
	 *
	 * @param string $id   Payment ID.
	 * @param string $shop The shop that made it, as its metadata says.
	 * @return array
	 * @throws Florin_Failure If the server refuses or does not answer.
	 */
	public function cancel( $id, $shop ) {
		return $this->send(
			'POST',
			'/v1/payments/' . rawurlencode( $id ) . '/cancel',
			array(
				'only_if_unpaid' => true,
				'shop'           => $shop,
			)
		);
	}

	/**
	 * Requests a refund, which the customer claims on a page and the merchant sends.
	 *
	 * @param array  $refund          As the API reference describes it.
	 * @param string $idempotency_key The same key never creates a second refund.
	 * @return array
	 * @throws Florin_Failure If the server refuses or does not answer.
	 */
	public function create_refund( array $refund, $idempotency_key ) {
		return $this->send( 'POST', '/v1/refunds', $refund, array( 'Idempotency-Key' => $idempotency_key ) );
	}

	/**
	 * Reads a refund.
	 *
	 * @param string $id      Refund ID.
	 * @param int    $seconds How long to wait for the answer.
	 * @return array
	 * @throws Florin_Failure If the server refuses or does not answer.
	 */
	public function refund( $id, $seconds = self::TIMEOUT_SECONDS ) {
		return $this->send( 'GET', '/v1/refunds/' . rawurlencode( $id ), null, array(), $seconds );
	}

	/**
	 * Reads the newest refunds of a payment.
	 *
	 * @param string $payment_id The payment.
	 * @param int    $seconds    How long to wait for the answer.
	 * @param string $status     Only those in this status.
	 * @return array
	 * @throws Florin_Failure If the server refuses or does not answer.
	 */
	public function refunds_of( $payment_id, $seconds, $status = '' ) {
		$query = 'limit=100&payment_id=' . rawurlencode( $payment_id ) . ( '' === $status ? '' : '&status=' . $status );
		return $this->send( 'GET', '/v1/refunds?' . $query, null, array(), $seconds )['data'];
	}

	/**
	 * Creates a webhook endpoint; the reply contains its signing secret.
	 *
	 * @param string $url Where events are sent.
	 * @return array
	 * @throws Florin_Failure If the server refuses or does not answer.
	 */
	public function create_endpoint( $url ) {
		return $this->send(
			'POST',
			'/v1/webhook_endpoints',
			array(
				'url'         => $url,
				'events'      => self::EVENTS,
				'description' => 'WooCommerce',
			)
		);
	}

	/**
	 * Lets a webhook endpoint receive all events that the plugin handles. It keeps its signing secret and what was not delivered yet.
	 *
	 * @param string $id  Endpoint ID.
	 * @param string $url Where events are sent.
	 * @return array
	 * @throws Florin_Failure If the server refuses or does not answer.
	 */
	public function subscribe_endpoint( $id, $url ) {
		return $this->send(
			'POST',
			'/v1/webhook_endpoints/' . rawurlencode( $id ),
			array(
				'url'     => $url,
				'events'  => self::EVENTS,
				'enabled' => true,
			)
		);
	}

	/**
	 * All webhook endpoints.
	 *
	 * @return array[]
	 * @throws Florin_Failure If the server refuses or does not answer.
	 */
	public function endpoints() {
		return $this->send( 'GET', '/v1/webhook_endpoints' )['data'];
	}

	/**
	 * Deletes a webhook endpoint.
	 *
	 * @param string $id Endpoint ID.
	 * @return array
	 * @throws Florin_Failure If the server refuses or does not answer.
	 */
	public function delete_endpoint( $id ) {
		return $this->send( 'DELETE', '/v1/webhook_endpoints/' . rawurlencode( $id ) );
	}

	/**
	 * @param string     $method  HTTP method.
	 * @param string     $path    Path on the server.
	 * @param array|null $body    Sent as JSON.
	 * @param array      $headers More headers.
	 * @param int        $seconds How long to wait for the answer.
	 * @return array
	 * @throws Florin_Failure If the server refuses or does not answer.
	 */
	private function send( $method, $path, $body = null, array $headers = array(), $seconds = self::TIMEOUT_SECONDS ) {
		$headers['Authorization'] = 'Bearer ' . $this->key;
		$headers['Accept']        = 'application/json';
		$request                  = array(
			'method'      => $method,
			'timeout'     => $seconds,
			// A redirect would carry the key to another address.
			'redirection' => 0,
			'user-agent'  => 'Florin-WooCommerce/' . FLORIN_PAYMENTS_VERSION,
		);
		if ( null !== $body ) {
			$headers['Content-Type'] = 'application/json';
			$request['body']         = wp_json_encode( (object) $body );
		}
		$request['headers'] = $headers;
		$reply              = wp_remote_request( $this->url . $path, $request );
		if ( is_wp_error( $reply ) ) {
			throw new Florin_Failure( $reply->get_error_message() );
		}
		$status = (int) wp_remote_retrieve_response_code( $reply );
		$json   = json_decode( (string) wp_remote_retrieve_body( $reply ), true );
		if ( 401 === $status ) {
			Florin_Connection::set_problem( 'key' );
		}
		if ( $status >= 200 && $status < 300 && is_array( $json ) ) {
			Florin_Connection::end_problem( 'key' );
			return $json;
		}
		$error   = is_array( $json ) && isset( $json['error'] ) && is_array( $json['error'] ) ? $json['error'] : array();
		$message = isset( $error['message'] ) && is_string( $error['message'] )
			? $error['message']
			/* translators: %d: HTTP status code */
			: sprintf( __( 'This address does not answer like a Florin server (HTTP status %d).', 'florin-payments' ), $status );
		$text    = static function ( $name ) use ( $error ) {
			return isset( $error[ $name ] ) && is_string( $error[ $name ] ) ? $error[ $name ] : '';
		};
		throw new Florin_Failure( $message, $status, $text( 'code' ), $text( 'param' ) );
	}
}
