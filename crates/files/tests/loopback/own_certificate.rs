//! Trust in the very certificate that a server shows, as `openssl req -x509` makes it: that of an authority.

use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, date_time_ymd};
use thalweg_files::certificate::{CertificateStore, Identity};
use thalweg_files::client::{Category, Error, Fetcher, Preference, Report, Trust};

use crate::common::{Downloads, Host, assert_plain, get_one};

/// A certificate that signs itself and says that it may sign others, valid in these years.
fn authority(name: &str, years: (i32, i32)) -> Identity {
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    (params.not_before, params.not_after) = (date_time_ymd(years.0, 1, 1), date_time_ymd(years.1, 1, 1));
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    Identity::from_pem(certificate.pem().as_bytes(), key.serialize_pem().as_bytes()).unwrap()
}

/// What comes of fetching from a server that shows `shown` by a client that trusts `trusted`, over each transport.
async fn fetch(shown: &Identity, trusted: &Identity) -> Vec<Result<Report, Error>> {
    let store = CertificateStore::new(shown).unwrap();
    let host = Host::with(move |options| options.certificate = store).await;
    host.file("f", b"x");
    let mut results = Vec::new();
    for preference in [Preference::Quic, Preference::Tcp] {
        let mut options = host.options(preference);
        options.trust = Trust::Certificates(trusted.chain().to_vec());
        let fetcher = Fetcher::new(options).unwrap();
        results.push(get_one(&fetcher, host.url("f"), &Downloads::new().path("f"), None).await);
    }
    results
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_authority_that_is_the_server_itself_is_trusted() {
    let own = authority("localhost", (2020, 2500));
    for result in fetch(&own, &own).await {
        assert_eq!(result.unwrap().bytes, 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn its_name_and_its_dates_are_checked_and_no_other_is_trusted() {
    let own = authority("localhost", (2020, 2500));
    let elsewhere = authority("elsewhere.example", (2020, 2500));
    let expired = authority("localhost", (2000, 2001));
    let future = authority("localhost", (2400, 2500));
    // The same name, but another key.
    let other = authority("localhost", (2020, 2500));
    for (shown, trusted, words) in [
        (&elsewhere, &elsewhere, "it is for other names (elsewhere.example)"),
        (&expired, &expired, "it has expired"),
        (&future, &future, "it is not valid yet"),
        (&own, &other, "which the server shows as its own"),
    ] {
        for result in fetch(shown, trusted).await {
            let error = result.unwrap_err();
            assert_eq!(error.category(), Category::Trust, "{error}");
            let text = error.to_string();
            assert!(text.contains(words), "{words:?} not in: {text}");
            assert_plain(&text);
        }
    }
}
