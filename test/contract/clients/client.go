// A client and a receiver written from the documented interface alone. Go's standard library only.
package main

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

const returnURL = "https://shop.example/thanks"

type item struct {
	ProductID string  `json:"product_id"`
	Name      string  `json:"name"`
	Quantity  int     `json:"quantity"`
	UnitPrice float64 `json:"unit_price"`
}
type order struct {
	ReturnURL string  `json:"return_url"`
	Items     []item  `json:"items"`
	Tax       float64 `json:"tax"`
	InvoiceID *string `json:"invoice_id"`
}
type payment struct {
	Success         bool    `json:"success"`
	TransactionID   string  `json:"transaction_id"`
	PaymentURL      string  `json:"payment_url"`
	AmountUSD       string  `json:"amount_usd"`
	ItemsCount      int     `json:"items_count"`
	Status          string  `json:"status"`
	Amount          string  `json:"amount"`
	AmountReceived  string  `json:"amount_received"`
	Currency        *string `json:"currency"`
	PaymentAddress  *string `json:"payment_address"`
	TransactionHash *string `json:"transaction_hash"`
}
type list struct {
	Data       []payment `json:"data"`
	HasMore    bool      `json:"has_more"`
	TotalCount int       `json:"total_count"`
}
type failure struct {
	Error struct {
		Type    string `json:"type"`
		Message string `json:"message"`
		Param   string `json:"param"`
	} `json:"error"`
}

func call(base, key, method, path string, body any, reply any) (int, http.Header) {
	var sent io.Reader
	if body != nil {
		text, _ := json.Marshal(body)
		sent = bytes.NewReader(text)
	}
	request, _ := http.NewRequest(method, base+path, sent)
	request.Header.Set("Authorization", "Bearer "+key)
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		fmt.Println("wrong", path, err)
		os.Exit(1)
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(reply); err != nil {
		fmt.Println("wrong", path, err)
		os.Exit(1)
	}
	return response.StatusCode, response.Header
}

func check(step string, holds bool, reply any) {
	if !holds {
		fmt.Printf("wrong %s %+v\n", step, reply)
		os.Exit(1)
	}
	fmt.Println("ok", step)
}

func number(text string) int {
	value, err := strconv.Atoi(text)
	if err != nil {
		return -1
	}
	return value
}

func run(base, secret, public string) {
	var simple payment
	price := 1.1
	status, headers := call(base, public, "POST", "/api/payment/create/simple", map[string]any{"amount_usd": price * 3, "return_url": returnURL}, &simple)
	page, _ := url.Parse(simple.PaymentURL)
	check("simple", status == 201 && simple.Success && simple.AmountUSD == "3.30" && simple.Status == "pending" && page.Query().Get("id") == simple.TransactionID, simple)
	check("limits", number(headers.Get("X-RateLimit-Limit")) > number(headers.Get("X-RateLimit-Remaining")) && number(headers.Get("X-RateLimit-Reset")) > 0, headers)
	var advanced payment
	items := []item{{"mug", "Mug", 3, 4.35}, {"pin", "Pin", 1, 0.95}}
	status, _ = call(base, secret, "POST", "/api/payment/create/advanced", order{returnURL, items, 0, nil}, &advanced)
	check("advanced", status == 201 && advanced.AmountUSD == "14.00" && advanced.ItemsCount == 2, advanced)
	var legacy payment
	status, _ = call(base, secret, "POST", "/payments", map[string]any{"amount": "0.5", "description": nil, "redirect_url": returnURL}, &legacy)
	check("legacy", status == 201 && legacy.Amount == "0.50000000" && *legacy.PaymentAddress != "", legacy)
	var coin payment
	status, _ = call(base, secret, "POST", "/v1/transactions/create", map[string]any{"crypto": "BTC", "amount": 25.0, "currency_fiat": "USD"}, &coin)
	check("transaction", status == 201 && strings.HasPrefix(coin.PaymentURL, "http"), coin)
	if visit, err := http.Get(coin.PaymentURL); err == nil {
		visit.Body.Close()
	}
	var detail payment
	for i := 0; i < 600 && detail.Status != "completed"; i++ {
		call(base, secret, "GET", "/api/payment/"+coin.TransactionID, nil, &detail)
		time.Sleep(100 * time.Millisecond)
	}
	check("completed", detail.Status == "completed" && *detail.Currency == "BTC" && detail.TransactionHash != nil && detail.AmountReceived == detail.Amount, detail)
	found := map[string]bool{}
	rows, after := 0, ""
	for {
		var part list
		query := url.Values{"limit": {"2"}}
		if after != "" {
			query.Set("starting_after", after)
		}
		call(base, secret, "GET", "/api/payments?"+query.Encode(), nil, &part)
		for _, row := range part.Data {
			found[row.TransactionID] = true
			after = row.TransactionID
			rows++
		}
		if !part.HasMore {
			check("list", part.TotalCount == rows && len(found) == rows && found[simple.TransactionID], part)
			break
		}
	}
	var wrong failure
	status, _ = call(base, secret, "POST", "/api/payment/create/simple", map[string]any{"amount_usd": 0, "return_url": returnURL}, &wrong)
	check("invalid", status == 400 && wrong.Error.Type == "invalid_request" && wrong.Error.Param == "amount_usd", wrong)
	var denied failure
	status, _ = call(base, "sk_test_nobody", "GET", "/api/payments", nil, &denied)
	check("unauthorized", status == 401 && denied.Error.Message != "", denied)
	fmt.Println("paid", coin.TransactionID)
}

func receive(port, signingSecret string) {
	var lock sync.Mutex
	seen := map[string]bool{}
	listener, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		fmt.Println("wrong", err)
		os.Exit(1)
	}
	fmt.Println("listening")
	http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mac := hmac.New(sha256.New, []byte(signingSecret))
		mac.Write(body)
		if !hmac.Equal([]byte(hex.EncodeToString(mac.Sum(nil))), []byte(r.Header.Get("X-Service-Signature"))) {
			w.WriteHeader(400)
			return
		}
		var event struct {
			ID, Type string
			Data     struct{ ID, Status string }
		}
		json.Unmarshal(body, &event)
		lock.Lock()
		defer lock.Unlock()
		if !seen[event.ID] {
			seen[event.ID] = true
			fmt.Println("event", event.Type, event.Data.ID, event.Data.Status)
		}
	}))
}

func main() {
	if os.Args[1] == "run" {
		run(os.Args[2], os.Args[3], os.Args[4])
	} else {
		receive(os.Args[2], os.Args[3])
	}
}
