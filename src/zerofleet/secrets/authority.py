"""A certificate authority of one fleet, and the certificates it signs.

It is meant for trials and for fleets without a better one, because its key is a file next to the
certificates. With cert-manager or similar, lay out the same folders from its certificates.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_AUTHORITY_DAYS = 3650
_DAYS = 397
RENEW_DAYS = 60
"""A certificate that expires sooner than this is renewed."""


@dataclass(frozen=True, slots=True)
class CertifiedKey:
    """A certificate and its key, as PEM."""

    certificate: bytes
    key: bytes


def make_authority(name: str) -> CertifiedKey:
    """Return an authority that signs certificates of services, but no other authorities."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name(name)
    builder = (
        _builder(subject, subject, key.public_key(), _AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
    )
    return _pair(builder.sign(key, hashes.SHA256()), key)


def make_certificate(
    authority: CertifiedKey, name: str, hosts: Sequence[str], *, server: bool, client: bool
) -> CertifiedKey:
    """Return a certificate for one service.

    Args:
        authority: signs the certificate.
        name: name by which servers know the client.
        hosts: DNS names and IP addresses of the server, for clients.
        server: valid for servers. A worker's is not, so that a stolen one cannot impersonate a
            server.
        client: valid for clients.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    signer = x509.load_pem_x509_certificate(authority.certificate)
    signing_key = serialization.load_pem_private_key(authority.key, password=None)
    if not isinstance(signing_key, ec.EllipticCurvePrivateKey):
        raise TypeError("the authority's key is of another kind than ours")
    uses = [ExtendedKeyUsageOID.SERVER_AUTH] * server + [ExtendedKeyUsageOID.CLIENT_AUTH] * client
    builder = (
        _builder(_name(name), signer.subject, key.public_key(), _DAYS)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general(each) for each in hosts]), False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signing_key.public_key()),
            critical=False,
        )
    )
    return _pair(builder.sign(signing_key, hashes.SHA256()), key)


def is_good_for(certificate: bytes, authority: bytes, hosts: Sequence[str]) -> bool:
    """Return whether a certificate is signed by this authority, names these hosts, and lasts."""
    try:
        ours = x509.load_pem_x509_certificate(certificate)
        ours.verify_directly_issued_by(x509.load_pem_x509_certificate(authority))
        named = ours.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except Exception:  # a bad certificate is replaced, whatever is wrong with it
        return False
    soon = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=RENEW_DAYS)
    return ours.not_valid_after_utc > soon and list(named) == [_general(each) for each in hosts]


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))  # clocks differ
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> CertifiedKey:
    encoding = serialization.Encoding.PEM
    return CertifiedKey(
        certificate.public_bytes(encoding),
        key.private_bytes(
            encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ),
    )


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _general(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
