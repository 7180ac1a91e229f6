//! ECDSA with any hash on the three NIST curves: `ring` ties the hash to the curve and knows no P-521,
//! the API does neither. Only public values are handled here, so speed and timing do not matter.

use num_bigint::BigUint;

/// A curve, `y² = x³ − 3x + b` over a prime field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Curve {
    P256,
    P384,
    P521,
}

impl Curve {
    /// By its name in SSH keys.
    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "nistp256" => Some(Self::P256),
            "nistp384" => Some(Self::P384),
            "nistp521" => Some(Self::P521),
            _ => None,
        }
    }
}

/// What a curve is made of (SEC 2), as hexadecimal numbers: p, b, x and y of the base point, n.
fn constants(curve: Curve) -> [&'static str; 5] {
    match curve {
        Curve::P256 => [
            "ffffffff00000001000000000000000000000000ffffffffffffffffffffffff",
            "5ac635d8aa3a93e7b3ebbd55769886bc651d06b0cc53b0f63bce3c3e27d2604b",
            "6b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296",
            "4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5",
            "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551",
        ],
        Curve::P384 => [
            "fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffeffffffff0000000000000000ffffffff",
            "b3312fa7e23ee7e4988e056be3f82d19181d9c6efe8141120314088f5013875ac656398d8a2ed19d2a85c8edd3ec2aef",
            "aa87ca22be8b05378eb1c71ef320ad746e1d3b628ba79b9859f741e082542a385502f25dbf55296c3a545e3872760ab7",
            "3617de4a96262c6f5d9e98bf9292dc29f8f41dbd289a147ce9da3113b5f0b8c00a60b1ce1d7e819d7a431d7c90ea0e5f",
            "ffffffffffffffffffffffffffffffffffffffffffffffffc7634d81f4372ddf581a0db248b0a77aecec196accc52973",
        ],
        Curve::P521 => [
            "01ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
            "0051953eb9618e1c9a1f929a21a0b68540eea2da725b99b315f3b8b489918ef109e156193951ec7e937b1652c0bd3bb1bf073573df883d2c34f1ef451fd46b503f00",
            "00c6858e06b70404e9cd9e3ecb662395b4429c648139053fb521f828af606b4d3dbaa14b5e77efe75928fe1dc127a2ffa8de3348b3c1856a429bf97e7e31c2e5bd66",
            "011839296a789a3bc0045c8a5fb42c7d1bd998f54449579b446817afbd17273e662c97ee72995ef42640c550b9013fad0761353c7086a272c24088be94769fd16650",
            "01fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffa51868783bf2f966b7fcc0148f709a5d03bb5c9b8899c47aebb6fb71e91386409",
        ],
    }
}

struct Field {
    p: BigUint,
    b: BigUint,
    n: BigUint,
    base: Point,
}

/// A point in Jacobian coordinates; `z` is zero at infinity.
#[derive(Clone)]
struct Point {
    x: BigUint,
    y: BigUint,
    z: BigUint,
}

impl Field {
    #[expect(clippy::many_single_char_names, reason = "the names of the standard")]
    fn of(curve: Curve) -> Option<Self> {
        let [p, b, x, y, n] = constants(curve).map(|hex| BigUint::parse_bytes(hex.as_bytes(), 16));
        let base = Point {
            x: x?,
            y: y?,
            z: 1u8.into(),
        };
        let (p, b, n) = (p?, b?, n?);
        Some(Self { p, b, n, base })
    }

    fn times(&self, a: &BigUint, b: &BigUint) -> BigUint {
        a * b % &self.p
    }

    fn less(&self, a: &BigUint, b: &BigUint) -> BigUint {
        (a + &self.p - b) % &self.p
    }

    /// A point from its uncompressed form, if it lies on the curve.
    fn point(&self, bytes: &[u8]) -> Option<Point> {
        let (4, rest) = bytes.split_first().map(|(first, rest)| (*first, rest))? else {
            return None;
        };
        let (x, y) = rest.split_at_checked(rest.len() / 2)?;
        let (x, y) = (BigUint::from_bytes_be(x), BigUint::from_bytes_be(y));
        let cube = self.times(&self.times(&x, &x), &x);
        let right = self.less(&(cube + &self.b), &(&x * 3u8 % &self.p));
        let on = x < self.p && y < self.p && self.times(&y, &y) == right;
        let z = 1u8.into();
        on.then_some(Point { x, y, z })
    }

    fn double(&self, a: &Point) -> Point {
        let delta = self.times(&a.z, &a.z);
        let gamma = self.times(&a.y, &a.y);
        let beta = self.times(&a.x, &gamma);
        let left = self.less(&a.x, &delta);
        let alpha = self.times(&left, &(&a.x + &delta)) * 3u8 % &self.p;
        let x = self.less(&self.times(&alpha, &alpha), &(&beta * 8u8 % &self.p));
        let z = self.times(&a.y, &a.z) * 2u8 % &self.p;
        let turned = self.less(&(&beta * 4u8 % &self.p), &x);
        let square = self.times(&gamma, &gamma) * 8u8 % &self.p;
        let y = self.less(&self.times(&alpha, &turned), &square);
        Point { x, y, z }
    }

    #[expect(clippy::many_single_char_names, reason = "the names of the formula")]
    fn add(&self, a: &Point, b: &Point) -> Point {
        let zero = BigUint::ZERO;
        if a.z == zero {
            return b.clone();
        }
        if b.z == zero {
            return a.clone();
        }
        let (za, zb) = (self.times(&a.z, &a.z), self.times(&b.z, &b.z));
        let (ua, ub) = (self.times(&a.x, &zb), self.times(&b.x, &za));
        let sa = self.times(&self.times(&a.y, &b.z), &zb);
        let sb = self.times(&self.times(&b.y, &a.z), &za);
        let (h, r) = (self.less(&ub, &ua), self.less(&sb, &sa));
        if h == zero {
            return if r == zero {
                self.double(a)
            } else {
                let one = BigUint::from(1u8);
                Point {
                    x: one.clone(),
                    y: one,
                    z: zero,
                }
            };
        }
        let square = self.times(&h, &h);
        let cube = self.times(&square, &h);
        let v = self.times(&ua, &square);
        let x = self.less(&self.times(&r, &r), &((&cube + &v * 2u8) % &self.p));
        let fall = self.times(&sa, &cube);
        let y = self.less(&self.times(&r, &self.less(&v, &x)), &fall);
        let z = self.times(&self.times(&a.z, &b.z), &h);
        Point { x, y, z }
    }

    /// `u·base + v·other`, both at once.
    fn sum(&self, u: &BigUint, other: &Point, v: &BigUint) -> Point {
        let both = self.add(&self.base, other);
        let mut sum = Point {
            x: 1u8.into(),
            y: 1u8.into(),
            z: BigUint::ZERO,
        };
        for bit in (0..u.bits().max(v.bits())).rev() {
            sum = self.double(&sum);
            match (u.bit(bit), v.bit(bit)) {
                (true, true) => sum = self.add(&sum, &both),
                (true, false) => sum = self.add(&sum, &self.base),
                (false, true) => sum = self.add(&sum, other),
                (false, false) => {}
            }
        }
        sum
    }
}

/// Whether `signature` (DER) over `digest` was made with the key of that point.
pub(super) fn verify(curve: Curve, point: &[u8], digest: &[u8], signature: &[u8]) -> bool {
    check(curve, point, digest, signature) == Some(true)
}

fn check(curve: Curve, point: &[u8], digest: &[u8], signature: &[u8]) -> Option<bool> {
    let field = Field::of(curve)?;
    let key = field.point(point)?;
    let (r, s) = pair(signature)?;
    let zero = BigUint::ZERO;
    if r == zero || s == zero || r >= field.n || s >= field.n {
        return Some(false);
    }
    let given = u64::try_from(digest.len()).ok()? * 8;
    let mut e = BigUint::from_bytes_be(digest);
    e >>= given.saturating_sub(field.n.bits());
    let two = BigUint::from(2u8);
    let inverse = s.modpow(&(&field.n - &two), &field.n);
    let sum = field.sum(
        &(e * &inverse % &field.n),
        &key,
        &(&r * &inverse % &field.n),
    );
    if sum.z == zero {
        return Some(false);
    }
    let inverse = sum.z.modpow(&(&field.p - &two), &field.p);
    let x = field.times(&sum.x, &field.times(&inverse, &inverse));
    Some(x % &field.n == r)
}

/// The two numbers of a DER signature: SEQUENCE (INTEGER r, INTEGER s).
fn pair(der: &[u8]) -> Option<(BigUint, BigUint)> {
    let (body, rest) = element(0x30, der)?;
    let (r, after) = element(0x02, body)?;
    let (s, end) = element(0x02, after)?;
    let numbers = (BigUint::from_bytes_be(r), BigUint::from_bytes_be(s));
    (rest.is_empty() && end.is_empty()).then_some(numbers)
}

/// The content of a DER element of that tag, and what follows it.
fn element(tag: u8, der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (first, rest) = der.split_first()?;
    let (length, rest) = rest.split_first()?;
    let (length, rest) = match length {
        0..=0x7f => (usize::from(*length), rest),
        0x81 => rest
            .split_first()
            .map(|(next, rest)| (usize::from(*next), rest))?,
        _ => return None,
    };
    if *first != tag {
        return None;
    }
    rest.split_at_checked(length)
}
