package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// As long as kubeadm's authorities; certificates that kube-controller-manager signs never outlive it.
const validity = 10 * 365 * 24 * time.Hour

// Clocks of client and server may differ by a little.
const backdated = time.Hour

// authority signs the certificates of one circle of trust.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	// Where certificate and key are, as PEM.
	files pair
}

// pair is a certificate and its key, as PEM in memory and in files.
type pair struct {
	certificate, key         []byte
	certificateFile, keyFile string
}

func newAuthority(folder, name string) (*authority, error) {
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	made := &authority{}
	files, err := made.issue(folder, name, template)
	if err != nil {
		return nil, err
	}
	made.files = files
	return made, nil
}

// server issues a certificate for loopback and the names a cluster knows its API server by. It also
// serves as a client's: etcd's JSON gateway presents it to etcd itself.
func (a *authority) server(folder, name string) (pair, error) {
	return a.issue(folder, name, &x509.Certificate{
		Subject:     pkix.Name{CommonName: name},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames: []string{"localhost", "kubernetes", "kubernetes.default",
			"kubernetes.default.svc", "kubernetes.default.svc.cluster.local"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 96, 0, 1)},
	})
}

// client issues a certificate by which the API server knows a user and its groups.
func (a *authority) client(folder, file, user string, groups []string) (pair, error) {
	return a.issue(folder, file, &x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// issue completes the template, signs it (with its own key if the authority has none yet) and writes
// FOLDER/FILE.crt and FOLDER/FILE.key.
func (a *authority) issue(folder, file string, template *x509.Certificate) (pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, err
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)); err != nil {
		return pair{}, err
	}
	now := time.Now()
	template.NotBefore, template.NotAfter = now.Add(-backdated), now.Add(validity)
	if a.key == nil {
		a.certificate, a.key = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		return pair{}, fmt.Errorf("sign the certificate of %s: %w", file, err)
	}
	if a.certificate == template {
		if a.certificate, err = x509.ParseCertificate(der); err != nil {
			return pair{}, err
		}
	}
	issued := pair{
		certificate:     pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		certificateFile: filepath.Join(folder, file+".crt"),
		keyFile:         filepath.Join(folder, file+".key"),
	}
	if issued.key, err = encodeKey(key); err != nil {
		return pair{}, err
	}
	if err := os.WriteFile(issued.certificateFile, issued.certificate, 0o600); err != nil {
		return pair{}, err
	}
	return issued, os.WriteFile(issued.keyFile, issued.key, 0o600)
}

// newSigningKey writes the key that signs the tokens of service accounts.
func newSigningKey(file string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	encoded, err := encodeKey(key)
	if err != nil {
		return err
	}
	return os.WriteFile(file, encoded, 0o600)
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

// trusting is the TLS side of a client of this authority's servers.
func (a *authority) trusting(client pair) (*tls.Config, error) {
	certificate, err := tls.X509KeyPair(client.certificate, client.key)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AddCert(a.certificate)
	return &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{certificate}}, nil
}
