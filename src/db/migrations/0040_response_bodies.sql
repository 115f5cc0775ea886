-- merchants/: the response body of a successful request, redacted and shortened like the request body.
alter table requests add column response_body text;
