package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"time"

	crypto "github.com/siderolabs/crypto/x509"
	"github.com/siderolabs/talos/pkg/machinery/client/config"
)

// A certificate authority as Talos has it: Ed25519, an organization and no common name.
type authority struct {
	certificate *x509.Certificate
	der         []byte
	key         ed25519.PrivateKey
}

func newAuthority() (*authority, error) {
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	template := certificate("talos")
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, key)
	if err != nil {
		return nil, err
	}
	parsed, err := x509.ParseCertificate(der)
	return &authority{parsed, der, key}, err
}

func certificate(organizations ...string) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{Organization: organizations},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
	}
}

// issue signs a certificate and returns it with its key.
func (a *authority) issue(template *x509.Certificate) ([]byte, ed25519.PrivateKey, error) {
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, public, a.key)
	return der, key, err
}

// server is TLS as apid wants it: a client certificate is required.
func (a *authority) server() (*tls.Config, error) {
	template := certificate()
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	template.DNSNames = []string{"localhost", "talos", "talos.default"}
	der, key, err := a.issue(template)
	if err != nil {
		return nil, err
	}
	clients := x509.NewCertPool()
	clients.AddCert(a.certificate)
	return &tls.Config{
		Certificates:           []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		ClientAuth:             tls.RequireAndVerifyClientCert,
		ClientCAs:              clients,
		MinVersion:             tls.VersionTLS13,
		SessionTicketsDisabled: true,
	}, nil
}

// talosconfig writes the file of a reader, with the official code.
func (a *authority) talosconfig(path, endpoint string) error {
	template := certificate("os:reader")
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	der, key, err := a.issue(template)
	if err != nil {
		return err
	}
	body, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	block := func(label string, bytes []byte) []byte {
		return pem.EncodeToMemory(&pem.Block{Type: label, Bytes: bytes})
	}
	pair := &crypto.PEMEncodedCertificateAndKey{
		Crt: block("CERTIFICATE", der),
		Key: block("ED25519 PRIVATE KEY", body),
	}
	return config.NewConfig("default", []string{endpoint}, block("CERTIFICATE", a.der), pair).Save(path)
}
